/* Properties of the components in `assets/controls.js`; `editor/web/controls.py` says what they mean. */

declare namespace Controls {
  type Id = string | Record<string, string | number>;

  /** What Dash gives to every component. */
  interface Common {
    id?: Id;
    setProps(changed: Record<string, unknown>): void;
  }

  type Item = string | { value: string; label: string; disabled?: boolean; title?: string } | { group: string; items: Item[] };

  interface ButtonProps extends Common {
    children: unknown;
    n_clicks?: number;
    disabled?: boolean;
    busy?: boolean;
    icon?: string;
    primary?: boolean;
    className?: string;
    title?: string;
  }

  interface SelectProps extends Common {
    value?: string | null;
    data: Item[];
    label?: string;
    placeholder?: string;
    disabled?: boolean;
    hidden?: boolean;
    width?: number;
    className?: string;
    title?: string;
  }

  interface FieldProps extends Common {
    value?: string | number | null;
    type?: "text" | "number";
    label?: string;
    code?: string;
    placeholder?: string;
    icon?: string;
    min?: number;
    max?: number;
    step?: number | string;
    debounce?: boolean;
    n_submit?: number;
    suggestions?: Item[];
    rows?: number;
    disabled?: boolean;
    width?: number;
    className?: string;
    title?: string;
  }

  interface AddressProps extends Common {
    pathname?: string;
  }

  interface LinkProps extends Common {
    children: unknown;
    href: string;
    className?: string;
    title?: string;
  }

  interface CheckboxProps extends Common {
    checked?: boolean;
    label: string;
    disabled?: boolean;
  }

  interface MultiSelectProps extends Common {
    value?: string[];
    data: Item[];
    label?: string;
    placeholder?: string;
    search?: boolean;
    className?: string;
  }

  interface TabsProps extends Common {
    value: string;
    tabs: { value: string; label: string; lazy: boolean }[];
    children: unknown[];
  }

  interface PopoverProps extends Common {
    label: string;
    icon?: string;
    title?: string;
    menu?: boolean;
    busy?: boolean;
    link?: boolean;
    end?: boolean;
    children: unknown;
  }

  /** A text, or an element: tag, properties, and its children, which are nodes too. */
  type Node = string | [tag: string, properties: Record<string, unknown>, ...children: unknown[]];

  interface AlertProps extends Common {
    title: string;
    children: unknown;
  }
}
