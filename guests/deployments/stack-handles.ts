/** Handles of signals that a registered stack has: those that its servers' metadata names. */

import type { Logger } from 'pino';
import { BridgeError, type HandleInfo, isPlainMap, type SignalsModule } from '#heat-bridge';
import type { ServerMetadata } from './metadata.ts';
import type { ResultDeliveryDeps } from './signal-result.ts';
import type { RegisteredStack, StackRegistration } from './stacks.ts';

/** Signals as a minion of the stack, and only what the stack itself has registered. */
export function createHandleSignaller(
  { owner, registration }: Pick<RegisteredStack, 'owner' | 'registration'>,
  { handleFor, intake }: Pick<SignalsModule, 'handleFor' | 'intake'>,
): ResultDeliveryDeps['signalHandle'] {
  return async (minion, alias, signal) => {
    const handle = handleFor(alias, minion);
    const isOwn = handle?.stack === handleStackOf(registration) && handle.owner === owner;
    if (!isOwn) return { kind: 'final', reason: `the stack has registered no handle ${alias}` };
    const data = { ...signal };
    const taken = await intake.accept({
      tag: `heat/${alias}`,
      sender: minion,
      data,
      request: undefined,
    });
    if (taken.kind === 'accepted') return { kind: 'delivered' };
    const reason = `the handle ${alias} took no signal: ${taken.reason}`;
    return { kind: taken.isFull ? 'again' : 'final', reason };
  };
}

/** The stack of its handles. */
function handleStackOf({ name }: Pick<StackRegistration, 'name'>): string {
  return `stack ${name}`;
}

/** Selects the handles of a stack. */
export function handlesOf({
  owner,
  registration,
}: Pick<RegisteredStack, 'owner' | 'registration'>): Pick<HandleInfo, 'owner' | 'stack'> {
  return { stack: handleStackOf(registration), ...(owner === undefined ? {} : { owner }) };
}

interface HandlesOfServer {
  readonly stack: RegisteredStack;
  readonly minion: string;
  /** `saltbridge:handles` of its metadata. */
  readonly handles: ServerMetadata['handles'];
  readonly signals: Pick<SignalsModule, 'ofStacks'>;
  /** All registered stacks. */
  readonly stacks: readonly RegisteredStack[];
  readonly log: Logger;
}

/**
 * Registers the handles that a server's metadata names for its minion, and takes the minion out of the
 * other handles of the stack. The handle of a stack that was removed, or registered earlier, gives up
 * the minion; any other handle of the alias stays.
 * @returns the reasons why handles were not registered
 */
export async function registerHandles(given: HandlesOfServer): Promise<readonly string[]> {
  const { stack, minion, handles, signals, stacks, log } = given;
  const { owner, registeredAt } = stack;
  const whose = handlesOf(stack);
  const takesFrom = (other: HandleInfo): boolean => {
    if (other.owner !== owner || !other.stack.startsWith('stack ')) return false;
    const its = stacks.find(
      (it) => it.owner === owner && handleStackOf(it.registration) === other.stack,
    );
    return its === undefined || its.id === stack.id || its.registeredAt < registeredAt;
  };
  await signals.ofStacks.withdraw(whose, minion, Object.keys(handles));
  const problems: string[] = [];
  for (const [alias, named] of Object.entries(handles)) {
    const { signal, emptyIsSuccess } = readHandle(named);
    try {
      await signals.ofStacks.claim({ alias, minion, signal, emptyIsSuccess, takesFrom, ...whose });
    } catch (error) {
      // A mistake of the bridge needs its stack; refusals are logged where they are new.
      if (!(error instanceof BridgeError)) {
        log.error({ alias, minion, err: error }, 'handle of a server was not registered');
      }
      const reason = error instanceof Error ? error.message : String(error);
      problems.push(`handle not registered: ${reason}`);
    }
  }
  return problems;
}

/** The attribute of the handle, or a map of it and of options. */
function readHandle(named: unknown): {
  readonly signal: unknown;
  readonly emptyIsSuccess: boolean;
} {
  if (!isPlainMap(named) || !Object.hasOwn(named, 'signal')) {
    return { signal: named, emptyIsSuccess: false };
  }
  return { signal: named.signal, emptyIsSuccess: named.emptyIsSuccess === true };
}
