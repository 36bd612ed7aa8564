/** Who calls, and whether they may. */

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

/** A caller while a run goes on. */
export interface ResolvedCaller {
  /** A name that no other caller has. */
  readonly name: string;
  /** `undefined`: no rule is asked. */
  readonly subject: Subject | undefined;
  /** Default: the policy in force. */
  readonly policy?: () => Policy;
  /** Fires when the caller may do nothing more: the token has ended. */
  readonly ended?: AbortSignal;
}

/** @throws AuthenticationError ERR_EAUTH_TOKEN */
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
 * Returns a caller for the moment: a token is not followed.
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
 * Which commands somebody may call, whatever the parameters and minions.
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
 * Returns the caller of a run, which has a place among those of its caller until it is released.
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
    throw new BridgeError('ERR_COMMAND_BUSY', 'as many runs of this caller as may be are active');
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

/** What stands for a secret where rules look at parameters. */
const masked = '********';

/**
 * Whether a caller may call a command, with these parameters, on all of these minions.
 * @returns who asked, and by which rule; `undefined`: no rule was asked
 * @throws BridgeError ERR_COMMAND_DENIED, which says nothing of the rules
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

/** A call of a command as rules look at it. */
export function aclCallOf(command: CompiledCommand, parameters: Parameters): Call {
  const { open, secret } = command.split(parameters);
  const kwargs = new Map([
    ...Object.entries(open).map(([key, value]) => [key, pythonStr(value as WireValue)] as const), // JSON
    ...Object.keys(secret).map((key) => [key, masked] as const),
  ]);
  return { fun: command.definition.name, args: [], kwargs };
}

/**
 * What a caller's target is evaluated over: the minions that rules name for all of these commands.
 * `undefined`: all minions, because no rule is asked or the caller may do everything.
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

/** Whether a rule denies it or the target means nobody, a caller is told the same. */
export function deniedForTarget(name: string): BridgeError {
  return commandDenied(name, 'no rule permits it with these parameters there');
}

/** What holds whoever calls. @throws BridgeError ERR_COMMAND_DENIED */
export function requireWithin(
  host: Pick<ExtensionHost, 'isWithin'>,
  { definition: { name, within } }: CompiledCommand,
  minions: readonly string[],
): void {
  if (within === undefined || host.isWithin(minions, within)) return;
  throw commandDenied(name, 'not all of the target is what the command is for');
}

function commandDenied(name: string, reason: string): BridgeError {
  return new BridgeError('ERR_COMMAND_DENIED', `${name}: ${reason}`);
}
