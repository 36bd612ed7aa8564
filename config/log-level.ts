/** Values of Salt's option `log_level`, the most verbose first. */
export const logLevels = [
  'all',
  'garbage',
  'trace',
  'debug',
  'profile',
  'info',
  'warning',
  'error',
  'critical',
  'quiet',
] as const;

/** Value of Salt's option `log_level`. */
export type LogLevel = (typeof logLevels)[number];
