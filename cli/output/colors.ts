/** The colours of Salt's outputters, as its terminals show them [salt utils/color.py]. */
export interface Colors {
  readonly red: string;
  readonly green: string;
  readonly blue: string;
  readonly magenta: string;
  readonly cyan: string;
  readonly lightRed: string;
  readonly lightGreen: string;
  readonly lightYellow: string;
  readonly lightBlue: string;
  readonly lightMagenta: string;
  /** Ends a colour. */
  readonly end: string;
}

/** Colours for a terminal. */
export const terminalColors: Colors = {
  red: '\x1b[0;31m',
  green: '\x1b[0;32m',
  blue: '\x1b[0;34m',
  magenta: '\x1b[0;35m',
  cyan: '\x1b[0;36m',
  lightRed: '\x1b[0;1;31m',
  lightGreen: '\x1b[0;1;32m',
  lightYellow: '\x1b[0;1;33m',
  lightBlue: '\x1b[0;1;34m',
  lightMagenta: '\x1b[0;1;35m',
  end: '\x1b[0;0m',
};

/** No colours: for pipes and files. */
export const noColors: Colors = {
  red: '',
  green: '',
  blue: '',
  magenta: '',
  cyan: '',
  lightRed: '',
  lightGreen: '',
  lightYellow: '',
  lightBlue: '',
  lightMagenta: '',
  end: '',
};
