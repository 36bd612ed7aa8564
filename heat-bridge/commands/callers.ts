/** Authentication and authorisation of the callers of commands. */

import {
  type Call,
  type IntendedCall,
  isAllowed,
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

/** Authenticated caller of a command or plan. */
export interface ResolvedCaller {
  /** Name that is unique to the caller. */
  readonly name: string;
  /**
   * Subject to which policy rules apply, with its current groups. `undefined` if no rules apply to
   * the caller. Read it for each decision, because the groups of a user can change during a run.
   */
  readonly subject: Subject | undefined;
  /** Returns the policy that applies to the caller. Default: the current policy of the master. */
  readonly policy?: () => Policy;
  /** Aborted when the caller's token becomes invalid. Absent if the caller has no token. */
  readonly ended?: AbortSignal;
}

/** Returns the actor that audit records name for a caller. Returns `undefined` for the operator. */
export function actorOfCaller({
  subject,
}: Pick<ResolvedCaller, 'subject'>): AuditRequester['who'] | undefined {
  return subject === undefined ? undefined : actorOf(subject);
}

/**
 * Authenticates a caller, and watches its token until `releases.release()` is called.
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
    return {
      name: uniqueCallerName(holder.subject),
      get subject() {
        return holder.subject;
      },
      policy: () => holder.policy,
      ended: holder.ended,
    };
  }
  return { name: uniqueCallerName(caller), subject: caller };
}

/**
 * Authenticates a caller, without watching the validity of its token.
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
 * Returns a predicate on names of commands. The predicate is true if rules permit the caller to run
 * the command with at least some parameters on at least some minions.
 * @throws AuthenticationError ERR_EAUTH_TOKEN
 */
export async function callableCommands(
  host: ExtensionHost,
  asked: CommandCaller,
): Promise<(command: string) => boolean> {
  return mayCallBy(host, await identifyCaller(host, asked));
}

/** Returns a predicate on names of commands, as {@link callableCommands} does. */
export function mayCallBy(
  host: Pick<ExtensionHost, 'policy'>,
  { subject, policy = () => host.policy() }: Pick<ResolvedCaller, 'subject' | 'policy'>,
): (command: string) => boolean {
  return (command) => subject === undefined || mayCallCommand(subject, command, policy());
}

/**
 * Authenticates the caller of a run, watches its token, and counts the run toward the caller's
 * limit of active runs. `releases.release()` ends the watch and the count.
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

/** Text that replaces secret parameters while rules are evaluated. */
const masked = '********';

/** A run of a command about which rules decide. */
interface AskedRun {
  readonly command: CompiledCommand;
  readonly parameters: Parameters;
  readonly minions: readonly string[];
  /** Whether they have already permitted the run, which then waited. */
  readonly isRepeated: boolean;
}

/**
 * Checks that a caller may run a command with these parameters on all of these minions.
 * @returns the requester and the deciding rule, or `undefined` if no rules apply to the caller
 * @throws BridgeError ERR_COMMAND_DENIED, whose message does not reveal rules
 */
export function authorizeCommand(
  host: ExtensionHost,
  { subject, policy }: ResolvedCaller,
  { command, parameters, minions, isRepeated }: AskedRun,
): AuditRequester | undefined {
  const { name } = command.definition;
  requireWithin(host, command, minions);
  if (subject === undefined) return undefined;
  const resource = { call: aclCallOf(command, parameters), minions };
  const { effect, rule } = host.decide(
    { subject, action: 'command', resource, isRepeated },
    policy?.(),
  );
  if (effect === 'deny') throw deniedForTarget(name);
  return { who: actorOf(subject), rule };
}

/**
 * Checks that a caller may run a command, as {@link authorizeCommand} does. The check does not count
 * towards the rates of rules, so the run itself must be authorised when it starts.
 * @throws BridgeError ERR_COMMAND_DENIED
 */
export function requireCommandRight(
  host: ExtensionHost,
  caller: ResolvedCaller,
  asked: Omit<AskedRun, 'isRepeated'>,
): void {
  const { subject, policy = () => host.policy() } = caller;
  const { command, parameters, minions } = asked;
  const resource = { call: aclCallOf(command, parameters), minions };
  const isPermitted =
    subject !== undefined && isAllowed({ subject, action: 'command', resource }, policy());
  if (isPermitted) requireWithin(host, command, minions);
  else authorizeCommand(host, caller, { ...asked, isRepeated: false });
}

/** Converts a run of a command to a function call, because policy rules match function calls. */
export function aclCallOf(command: CompiledCommand, parameters: Parameters): Call {
  const { open, secret } = command.split(parameters);
  const kwargs = new Map([
    ...Object.entries(open).map(([key, value]) => [key, pythonStr(value as WireValue)] as const), // JSON
    ...Object.keys(secret).map((key) => [key, masked] as const),
  ]);
  return { fun: command.definition.name, args: [], kwargs };
}

/**
 * Returns the minions on which the caller's rules permit all of `calls`. Only these minions can
 * match a target of the caller. Returns `undefined` if all minions can match, because no rules
 * apply to the caller or its rights are not restricted.
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
 * Returns the error for a denied call. The error is the same for a target that matches no minion.
 * Therefore callers cannot find out which minions exist.
 */
export function deniedForTarget(name: string): BridgeError {
  return commandDenied(
    name,
    'no rule permits the command with these parameters on all of these minions',
  );
}

/**
 * Checks that all minions match the target in the command's field `within`. The check applies to
 * every caller.
 * @throws BridgeError ERR_COMMAND_DENIED
 */
export function requireWithin(
  host: Pick<ExtensionHost, 'isWithin'>,
  { definition: { name, within } }: CompiledCommand,
  minions: readonly string[],
): void {
  if (within === undefined || host.isWithin(minions, within)) return;
  throw commandDenied(
    name,
    'the target includes minions that the compound target `within` of the command does not match',
  );
}

/**
 * Returns the error for a caller that no rule permits to run a command with the requested name. The
 * command need not exist.
 */
export function deniedByName(): BridgeError {
  return new BridgeError('ERR_COMMAND_DENIED', 'no rule permits a command with this name');
}

function commandDenied(name: string, reason: string): BridgeError {
  return new BridgeError('ERR_COMMAND_DENIED', `${name}: ${reason}`);
}
