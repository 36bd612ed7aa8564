/** What the system calls an error (`ENOENT`, …), or one of ours (`ERR_…`); `undefined`: nothing. */
export function codeOf(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error ? String(error.code) : undefined;
}

/** Whether there is no such file or directory. */
export function isMissing(error: unknown): boolean {
  return codeOf(error) === 'ENOENT';
}
