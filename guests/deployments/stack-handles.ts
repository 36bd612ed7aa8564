/** Handles of signals that a registered stack has: those that its servers' metadata names. */

import type { Logger } from 'pino';
import type { SignalsModule } from '#heat-bridge';
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
    const isOwn = handle?.stack === tagOf(registration) && handle.owner === owner;
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

/** By which handles of a stack are known. */
function tagOf({ name }: StackRegistration): string {
  return `stack ${name}`;
}

interface HandlesOfServer {
  readonly stack: RegisteredStack;
  readonly minion: string;
  readonly metadata: ServerMetadata;
  readonly handles: SignalsModule['api']['handles'];
  readonly log: Logger;
}

/** Registers what `saltbridge:handles` names, for this minion; those of the operator stay. */
export async function registerHandles(given: HandlesOfServer): Promise<void> {
  const { stack, minion, metadata, handles, log } = given;
  const { owner, registration } = stack;
  const tag = tagOf(registration);
  const whose = owner === undefined ? {} : { owner };
  const all = await handles.list(whose);
  for (const [alias, signal] of Object.entries(metadata.handles)) {
    try {
      const known = all.find((it) => it.alias === alias && it.owner === owner);
      if (known !== undefined && known.stack !== tag) continue;
      const minions = [...new Set([...(known?.minions ?? []), minion])];
      const registered = { alias, minions, stack: tag, signal, ...whose };
      await handles.add(registered, { replaces: true });
    } catch (error) {
      log.warn({ alias, minion, err: error }, 'handle of a server was not registered');
    }
  }
}
