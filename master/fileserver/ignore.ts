import { compileGlob, compileSearchPattern } from '../../minion-protocol/index.ts';

/** Which paths are as if they were not there. */
export interface IgnoreRules {
  /** `file_ignore_glob`: matched against the whole path. */
  readonly fileIgnoreGlob: readonly string[];
  /** `file_ignore_regex`: matched anywhere in the path. */
  readonly fileIgnoreRegex: readonly string[];
}

/**
 * Whether a path is ignored. Lists ask with the path below the root, requests for a file with
 * that on the disk, as in Salt [salt.fileserver.is_file_ignored].
 */
export function compileIgnore(rules: IgnoreRules): (path: string) => boolean {
  const tests = [
    ...rules.fileIgnoreRegex.map(compileSearchPattern),
    ...rules.fileIgnoreGlob.map(compileGlob),
  ];
  return (path) => tests.some((test) => test(path));
}
