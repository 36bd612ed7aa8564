/** Who calls, and whether they may. */
import {
  type Call,
  type IntendedCall,
  isUnlimited,
  type Policy,
  type Reach,
  reachOf,
  type Subject,
} from '../../acl/index.ts';
import { type AuditRequester, actorOf, type ExtensionHost } from '../../master/index.ts';
import { pythonStr, type WireValue } from '../../minion-protocol/index.ts';
import type { Budget } from '../../runtime/index.ts';
import type { Parameters } from '../catalog/argument-values.ts';
import type { CompiledCommand } from '../catalog/compile-command.ts';
import { BridgeError } from '../errors.ts';
import type { CommandCaller } from './request.ts';

/** A caller while a run goes on. */
export interface KnownCaller {
  /** A name that no other caller has. */
  readonly name: string;
  /** `undefined`: no rule is asked. */
  readonly subject: Subject | undefined;
  /** Default: the policy in force. */
  readonly policy?: () => Policy;
  /** Fires when the caller may do nothing more: the token has ended. */
  readonly ended?: AbortSignal;
  /** The run is over. */
  readonly leave: () => void;
}

const stays = { leave: (): void => {} };

/** @throws AuthenticationError ERR_EAUTH_TOKEN */
export async function knowCaller(host: ExtensionHost, caller: CommandCaller): Promise<KnownCaller> {
  if (caller === 'local') return { name: 'local', subject: undefined, ...stays };
  if ('token' in caller) {
    const holder = await host.holdToken(caller.token);
    const { subject, ended } = holder;
    const policy = (): Policy => holder.policy;
    return { name: nameOf(subject), subject, policy, ended, leave: () => holder.stop() };
  }
  return { name: nameOf(caller), subject: caller, ...stays };
}

/**
 * The same for a run, which has a place among those of its caller until it is over.
 * @throws AuthenticationError ERR_EAUTH_TOKEN, BridgeError ERR_COMMAND_BUSY
 */
export async function holdCaller(
  host: ExtensionHost,
  asked: CommandCaller,
  places: Budget,
): Promise<KnownCaller> {
  const caller = await knowCaller(host, asked);
  // protection: places-of-callers
  if (!places.tryTake(caller.name)) {
    caller.leave();
    throw new BridgeError('ERR_COMMAND_BUSY', 'as many runs of this caller as may be are active');
  }
  const leave = (): void => {
    places.release(caller.name);
    caller.leave();
  };
  return { ...caller, leave };
}

function nameOf(subject: Subject): string {
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
export function authorise(
  host: ExtensionHost,
  { subject, policy }: KnownCaller,
  command: CompiledCommand,
  parameters: Parameters,
  minions: readonly string[],
): AuditRequester | undefined {
  const { name } = command.definition;
  requireWithin(host, command, minions);
  if (subject === undefined) return undefined;
  const resource = { call: callOf(command, parameters), minions };
  const { effect, rule } = host.decide({ subject, action: 'command', resource }, policy?.());
  // protection: judged-commands
  if (effect === 'deny') throw deniedThere(name);
  return { who: actorOf(subject), rule };
}

/** A call of a command as rules look at it. */
export function callOf(command: CompiledCommand, parameters: Parameters): Call {
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
  { subject, policy }: Pick<KnownCaller, 'subject' | 'policy'>,
  calls: readonly IntendedCall[],
): Reach | undefined {
  const inForce = policy?.() ?? host.policy();
  if (subject === undefined || isUnlimited(subject, inForce, 'command')) return undefined;
  // protection: reach-of-callers
  return reachOf({ subject, action: 'command', calls }, inForce);
}

/** Whether a rule denies it or the target means nobody, a caller is told the same. */
export function deniedThere(name: string): BridgeError {
  return denied(name, 'no rule permits it with these parameters there');
}

/** What holds whoever calls. @throws BridgeError ERR_COMMAND_DENIED */
export function requireWithin(
  host: Pick<ExtensionHost, 'isWithin'>,
  { definition: { name, within } }: CompiledCommand,
  minions: readonly string[],
): void {
  if (within === undefined || host.isWithin(minions, within)) return;
  throw denied(name, 'not all of the target is what the command is for');
}

function denied(name: string, reason: string): BridgeError {
  return new BridgeError('ERR_COMMAND_DENIED', `${name}: ${reason}`);
}
