/** Who may call which method of the interface over the network. The local socket asks nobody. */

/**
 * `anybody`: what it takes is a proof by itself. `user`: whoever has a token, by what the policy
 * lets them do. `everything`: whoever may do everything. `host`: nobody; it is about files of the
 * master's host.
 */
export type RpcAccess = 'anybody' | 'user' | 'everything' | 'host';

const exceptions: ReadonlyMap<string, RpcAccess> = new Map([
  ['logins.login', 'anybody'],
  ['logins.identify', 'anybody'],
  ['logins.logout', 'anybody'],
  ['logins.follow', 'anybody'],
  ['jobs.publish', 'user'],
  ['jobs.run', 'user'],
  ['jobs.batch', 'user'],
  ['runners.run', 'user'],
  ['runners.start', 'user'],
  ['wheel.run', 'user'],
  ['wheel.start', 'user'],
  ['keys.create', 'user'],
  ['events.subscribe', 'user'],
  ['events.fire', 'user'],
  ['users.requireFullRights', 'user'],
  ['acl.permits', 'user'],
  ['store.backup', 'host'],
]);

/** What a method that nobody thought of asks for is everything. */
export function rpcAccess(method: string): RpcAccess {
  return exceptions.get(method) ?? 'everything';
}
