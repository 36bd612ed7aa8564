/**
 * Looks up accounts of this machine, and changes the account of a process that root has started.
 */

import { userInfo } from 'node:os';
import { codeOf } from '#runtime';
import { ProcessError } from './errors.ts';

/** Account under which the process runs. */
export interface Account {
  readonly name: string;
  readonly uid: number;
  readonly gid: number;
}

/** Change of account that the option `user` requires. */
export type UserChange =
  /** No change is needed: the process already runs as this user, or no user is set. */
  | { readonly kind: 'none' }
  | { readonly kind: 'become'; readonly account: Account }
  /** The change is impossible, because only root may change to another user. */
  | { readonly kind: 'impossible' };

/**
 * Determines the change of account that the option `user` requires.
 * @param user - value of the option. `null` if it is not set
 * @throws ProcessError ERR_USER if the account does not exist
 */
export function planUserChange(user: string | null): UserChange {
  const current = userInfo();
  if (user === null || user === current.username) return { kind: 'none' };
  if (current.uid !== 0) return { kind: 'impossible' };
  return { kind: 'become', account: findAccount(user) };
}

/**
 * Looks up an account by its name. Only root can do this. Node.js has no function to look up an
 * account, so the process briefly becomes the account and reads its ids.
 */
function findAccount(name: string): Account {
  try {
    process.seteuid?.(name);
  } catch (cause) {
    if (codeOf(cause) === 'ERR_UNKNOWN_CREDENTIAL') {
      throw new ProcessError('ERR_USER', `user: the account ${name} does not exist`, { cause });
    }
    throw cause;
  }
  const { uid, gid } = userInfo();
  process.seteuid?.(0);
  return { name, uid, gid };
}

/** Node's type declarations do not contain this method. */
type Groups = NodeJS.Process & { initgroups?(user: string, group: number): void };

/**
 * Changes the process to an account permanently: sets its supplementary groups, its group and its
 * user, in this order.
 */
export function becomeAccount({ name, uid, gid }: Account): void {
  const self: Groups = process;
  self.initgroups?.(name, gid);
  process.setgid?.(gid);
  process.setuid?.(uid);
}

/** Calls `act` with the rights of the account. Only root can do this. */
export function actAs<Result>({ name, uid, gid }: Account, act: () => Result): Result {
  const self: Groups = process;
  const [group, groups] = [process.getegid?.() ?? 0, process.getgroups?.() ?? []];
  self.initgroups?.(name, gid);
  process.setegid?.(gid);
  process.seteuid?.(uid);
  try {
    return act();
  } finally {
    process.seteuid?.(0);
    process.setegid?.(group);
    process.setgroups?.(groups);
  }
}
