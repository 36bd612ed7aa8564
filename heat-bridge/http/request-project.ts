import type { Subject } from '#acl';
import { BridgeError } from '../errors.ts';

/**
 * The project that a request is for: a token of Keystone's says it, and otherwise the caller may.
 * @throws BridgeError ERR_PROJECT where the caller names another one than that of the token
 */
export function resolveProject(
  subject: Subject | undefined,
  given: string | undefined,
): string | undefined {
  if (subject?.kind !== 'project') return given;
  const { id } = subject.project;
  if (given === undefined || given === id) return id;
  throw new BridgeError('ERR_PROJECT', 'project: another one than that of the token; leave it out');
}
