/** Accounts of this machine, and how a process that root started becomes another one's. */
import { userInfo } from 'node:os';
import { codeOf } from './error-code.ts';
import { CommandError } from './errors.ts';

/** An account that the process shall run as. */
export interface Account {
  readonly name: string;
  readonly uid: number;
  readonly gid: number;
}

/** What the process can do about Salt's `user`. */
export type UserChange =
  /** It is that user already, or none is asked for. */
  | { readonly kind: 'none' }
  | { readonly kind: 'become'; readonly account: Account }
  /** It is another user, and only root may change. */
  | { readonly kind: 'impossible' };

/**
 * Finds out what `user` asks for.
 * @throws CommandError ERR_USER when there is no such account
 */
export function planUserChange(user: string | null): UserChange {
  const current = userInfo();
  if (user === null || user === current.username) return { kind: 'none' };
  if (current.uid !== 0) return { kind: 'impossible' };
  return { kind: 'become', account: findAccount(user) };
}

/** Root only: Node can ask who the effective user is, but not who an account is. */
function findAccount(name: string): Account {
  try {
    process.seteuid?.(name);
  } catch (cause) {
    if (codeOf(cause) === 'ERR_UNKNOWN_CREDENTIAL') {
      throw new CommandError('ERR_USER', `user: there is no account ${name}`, { cause });
    }
    throw cause;
  }
  const { uid, gid } = userInfo();
  process.seteuid?.(0);
  return { name, uid, gid };
}

/** Gives up root for good: the account's groups, its group, then the account itself. */
export function becomeAccount({ name, uid, gid }: Account): void {
  // Node's types leave it out.
  const self: NodeJS.Process & { initgroups?(user: string, group: number): void } = process;
  // protection: root-groups
  self.initgroups?.(name, gid);
  process.setgid?.(gid);
  process.setuid?.(uid);
}
