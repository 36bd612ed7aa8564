/** Salt's values of `log_level`, starting with the most verbose. */
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

/** A value of Salt's `log_level`. */
export type LogLevel = (typeof logLevels)[number];
