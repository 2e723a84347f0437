/* Messages over the graph go away by themselves: soon where nothing went wrong, later where there is something to do. */
((editor) => {
  "use strict";

  const SHORT = 8_000,
    LONG = 25_000;
  let timer = 0;

  function noticed() {
    const note = editor.byId("notice")?.firstElementChild;
    clearTimeout(timer);
    if (!note) return;
    const wait = () => {
      clearTimeout(timer);
      timer = setTimeout(
        () => {
          if (note.isConnected) editor.closeNotice();
        },
        note.classList.contains("bad") ? LONG : SHORT,
      );
    };
    note.addEventListener("pointerenter", () => clearTimeout(timer));
    note.addEventListener("pointerleave", wait);
    wait();
  }

  editor.callbacks({
    noticeArrived: () => {
      setTimeout(noticed, 0);
    },
  });
})(window.hetero);
