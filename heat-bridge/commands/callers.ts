/** Callers of commands, and their authorisation. */

import {
  type Call,
  type IntendedCall,
  isUnlimited,
  mayCallCommand,
  type Policy,
  type Reach,
  reachOf,
  type Subject,
} from '#acl';
import { type AuditRequester, actorOf, type ExtensionHost } from '#master';
import { pythonStr, type WireValue } from '#minion-protocol';
import type { Budget } from '#runtime';
import { BridgeError } from '../errors.ts';
import type { CompiledCommand } from './command-catalog.ts';
import type { CommandCaller } from './command-request.ts';
import type { Parameters } from './parameters.ts';
import { Releases } from './releases.ts';

/** Authenticated caller during a run. */
export interface ResolvedCaller {
  /** Name that is unique to the caller. */
  readonly name: string;
  /** Subject for rules, or `undefined` if no rule applies. */
  readonly subject: Subject | undefined;
  /** Returns the caller's policy. Default: the policy in force. */
  readonly policy?: () => Policy;
  /** Aborts when the caller's token becomes invalid. Absent if the caller has no token. */
  readonly ended?: AbortSignal;
}

/**
 * Authenticates a caller, and follows its token until released.
 * @throws AuthenticationError ERR_EAUTH_TOKEN
 */
async function resolveCaller(
  host: ExtensionHost,
  caller: CommandCaller,
  releases: Releases,
): Promise<ResolvedCaller> {
  if (caller === 'local') return { name: 'local', subject: undefined };
  if ('token' in caller) {
    const holder = await host.holdToken(caller.token);
    releases.add(() => holder.stop());
    const { subject, ended } = holder;
    const policy = (): Policy => holder.policy;
    return { name: uniqueCallerName(subject), subject, policy, ended };
  }
  return { name: uniqueCallerName(caller), subject: caller };
}

/**
 * Authenticates a caller without following its token.
 * @throws AuthenticationError ERR_EAUTH_TOKEN
 */
export async function identifyCaller(
  host: ExtensionHost,
  asked: CommandCaller,
): Promise<ResolvedCaller> {
  const releases = new Releases();
  const caller = await resolveCaller(host, asked, releases);
  releases.release();
  return caller;
}

/**
 * Returns a function whether a caller may call a command with at least some parameters and
 * minions.
 * @throws AuthenticationError ERR_EAUTH_TOKEN
 */
export async function callableCommands(
  host: ExtensionHost,
  asked: CommandCaller,
): Promise<(command: string) => boolean> {
  const { subject, policy = () => host.policy() } = await identifyCaller(host, asked);
  return (command) => subject === undefined || mayCallCommand(subject, command, policy());
}

/**
 * Authenticates the caller of a run, and reserves one of its places for active runs until
 * released.
 * @throws AuthenticationError ERR_EAUTH_TOKEN, BridgeError ERR_COMMAND_BUSY
 */
export async function acquireCaller(
  host: ExtensionHost,
  asked: CommandCaller,
  places: Budget,
  releases: Releases,
): Promise<ResolvedCaller> {
  const caller = await resolveCaller(host, asked, releases);
  if (!places.tryTake(caller.name)) {
    throw new BridgeError('ERR_COMMAND_BUSY', 'too many active runs of this caller; retry later');
  }
  releases.add(() => places.release(caller.name));
  return caller;
}

function uniqueCallerName(subject: Subject): string {
  switch (subject.kind) {
    case 'minion':
      return JSON.stringify(['minion', subject.id]);
    case 'user':
      return JSON.stringify(['user', subject.eauth ?? null, subject.name]);
    case 'project':
      return JSON.stringify(['project', subject.project.id, subject.user.id]);
    default:
      return JSON.stringify([subject.kind, subject.name]);
  }
}

/** Text that replaces secrets in the parameters that rules see. */
const masked = '********';

/**
 * Checks that a caller may call a command with these parameters on all of these minions.
 * @returns the requester and the rule, or `undefined` if no rule applies
 * @throws BridgeError ERR_COMMAND_DENIED, without details of the rules
 */
export function authorizeCommand(
  host: ExtensionHost,
  { subject, policy }: ResolvedCaller,
  command: CompiledCommand,
  parameters: Parameters,
  minions: readonly string[],
): AuditRequester | undefined {
  const { name } = command.definition;
  requireWithin(host, command, minions);
  if (subject === undefined) return undefined;
  const resource = { call: aclCallOf(command, parameters), minions };
  const { effect, rule } = host.decide({ subject, action: 'command', resource }, policy?.());
  if (effect === 'deny') throw deniedForTarget(name);
  return { who: actorOf(subject), rule };
}

/** Returns a call of a command in the form that rules match. */
export function aclCallOf(command: CompiledCommand, parameters: Parameters): Call {
  const { open, secret } = command.split(parameters);
  const kwargs = new Map([
    ...Object.entries(open).map(([key, value]) => [key, pythonStr(value as WireValue)] as const), // JSON
    ...Object.keys(secret).map((key) => [key, masked] as const),
  ]);
  return { fun: command.definition.name, args: [], kwargs };
}

/**
 * Returns the minions over which a caller's target is evaluated: those that rules permit for all
 * of these commands. Returns `undefined` for all minions, if no rule applies or the caller has no
 * limits.
 */
export function reachOfCaller(
  host: Pick<ExtensionHost, 'policy'>,
  { subject, policy }: Pick<ResolvedCaller, 'subject' | 'policy'>,
  calls: readonly IntendedCall[],
): Reach | undefined {
  const inForce = policy?.() ?? host.policy();
  if (subject === undefined || isUnlimited(subject, inForce, 'command')) return undefined;
  return reachOf({ subject, action: 'command', calls }, inForce);
}

/**
 * Returns the error for a denied call. It is the same for a target without minions, so that a
 * caller cannot distinguish the two.
 */
export function deniedForTarget(name: string): BridgeError {
  return commandDenied(
    name,
    'no rule permits the command with these parameters on all of these minions',
  );
}

/**
 * Checks that a command may run on these minions, for any caller.
 * @throws BridgeError ERR_COMMAND_DENIED
 */
export function requireWithin(
  host: Pick<ExtensionHost, 'isWithin'>,
  { definition: { name, within } }: CompiledCommand,
  minions: readonly string[],
): void {
  if (within === undefined || host.isWithin(minions, within)) return;
  throw commandDenied(name, 'the target has minions outside of the `within` of the command');
}

function commandDenied(name: string, reason: string): BridgeError {
  return new BridgeError('ERR_COMMAND_DENIED', `${name}: ${reason}`);
}
