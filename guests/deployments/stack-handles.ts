import { errorMessage } from '#runtime';
/** Handles in the metadata of a stack's servers. */

import type { Logger } from 'pino';
import { BridgeError, type HandleInfo, isPlainMap, type SignalsModule } from '#heat-bridge';
import type { ServerMetadata } from './metadata.ts';
import type { ResultDeliveryDeps } from './signal-result.ts';
import type { RegisteredStack, StackRegistration } from './stacks.ts';

/**
 * Creates a function that sends signals to handles as a minion of the stack. It only uses handles
 * that the stack itself has registered.
 */
export function createHandleSignaller(
  { owner, registration }: Pick<RegisteredStack, 'owner' | 'registration'>,
  { handleFor, intake }: Pick<SignalsModule, 'handleFor' | 'intake'>,
): ResultDeliveryDeps['signalHandle'] {
  return async (minion, alias, signal) => {
    const handle = handleFor(alias, minion);
    const isOwn = handle?.stack === handleStackOf(registration) && handle.owner === owner;
    if (!isOwn)
      return {
        kind: 'final',
        reason: `no handle with the alias ${alias} is registered for this stack`,
      };
    const data = { ...signal };
    const taken = await intake.accept({
      tag: `heat/${alias}`,
      sender: minion,
      data,
      request: undefined,
    });
    if (taken.kind === 'accepted') return { kind: 'delivered' };
    const reason = `the handle ${alias} rejected the signal: ${taken.reason}`;
    return { kind: taken.isFull ? 'again' : 'final', reason };
  };
}

/** Returns the name under which a stack's handles are registered. */
function handleStackOf({ name }: Pick<StackRegistration, 'name'>): string {
  return `stack ${name}`;
}

/** Returns the fields that identify the handles of a stack. */
export function handlesOf({
  owner,
  registration,
}: Pick<RegisteredStack, 'owner' | 'registration'>): Pick<HandleInfo, 'owner' | 'stack'> {
  return { stack: handleStackOf(registration), ...(owner === undefined ? {} : { owner }) };
}

interface HandlesOfServer {
  readonly stack: RegisteredStack;
  readonly minion: string;
  /** Handles by alias: `saltbridge:handles` of the server's metadata. */
  readonly handles: ServerMetadata['handles'];
  readonly signals: Pick<SignalsModule, 'ofStacks'>;
  /** All registered stacks. */
  readonly stacks: readonly RegisteredStack[];
  /**
   * Returns whether the stack is still registered and still has the right to refer to the minion.
   */
  readonly mayRefer: () => boolean;
  readonly log: Logger;
}

/**
 * Registers the handles in a server's metadata for the minion of the server, and removes the minion
 * from the other handles of the stack. A handle of another stack may already have the same alias
 * and minion. In this case, the minion is moved to the handle of this stack if the other stack was
 * removed, or was registered before this stack.
 * @returns the reasons why handles could not be registered
 */
export async function registerHandles(given: HandlesOfServer): Promise<readonly string[]> {
  const { stack, minion, handles, signals, stacks, mayRefer, log } = given;
  const { owner, registeredAt } = stack;
  const whose = handlesOf(stack);
  const takesFrom = (other: HandleInfo): boolean => {
    if (other.owner !== owner || !other.stack.startsWith('stack ')) return false;
    const its = stacks.find(
      (it) => it.owner === owner && handleStackOf(it.registration) === other.stack,
    );
    return its === undefined || its.id === stack.id || its.registeredAt < registeredAt;
  };
  const requirePermission = (): void => {
    if (mayRefer()) return;
    const text = `the stack may no longer address the minion ${minion}; register the stack again`;
    throw new BridgeError('ERR_HANDLE_FORM', text);
  };
  const claim = { minion, takesFrom, requirePermission, ...whose };
  await signals.ofStacks.withdraw(whose, minion, Object.keys(handles));
  const problems: string[] = [];
  for (const [alias, named] of Object.entries(handles)) {
    const { signal, emptyIsSuccess } = readHandle(named);
    try {
      await signals.ofStacks.claim({ alias, signal, emptyIsSuccess, ...claim });
    } catch (error) {
      // Log an internal error with its call stack. The caller logs rejections when they occur for
      // the first time.
      if (!(error instanceof BridgeError)) {
        log.error(
          { alias, minion, err: error },
          'internal error while registering a handle from the metadata of a server',
        );
      }
      const reason = errorMessage(error);
      problems.push(`handle not registered: ${reason}`);
    }
  }
  return problems;
}

/**
 * Reads a handle from a server's metadata. The given value is the attribute of a Heat handle, or a
 * map that contains this attribute as `signal`. The map may also set `emptyIsSuccess`.
 */
function readHandle(named: unknown): {
  readonly signal: unknown;
  readonly emptyIsSuccess: boolean;
} {
  if (!isPlainMap(named) || !Object.hasOwn(named, 'signal')) {
    return { signal: named, emptyIsSuccess: false };
  }
  return { signal: named.signal, emptyIsSuccess: named.emptyIsSuccess === true };
}
