/**
 * The `queue` runner, with queues in the master's store [salt/runners/queue.py,
 * salt/queues/sqlite_queue.py].
 */

import type { CallContext, Events } from '#master';
import { numberOf, type WireMap, type WireValue } from '#minion-protocol';
import { errorMessage } from '#runtime';
import type { Store } from '#store';
import {
  type FunctionTable,
  masterFunction,
  refused,
  requireLocalCaller,
} from '../functions/define-function.ts';
import { anything, flag, ignored, map, optional, required, text } from '../functions/parameters.ts';
import { Queues } from './queues.ts';
import { operatorOwner, ownerOfActor, ownerOfValues } from './stored-amounts.ts';

/** Dependencies of the queues. */
export interface QueueRunnerDeps {
  readonly store: Store;
  readonly bus: Pick<Events['bus'], 'fire'>;
  /** Whether the policy permits everything to the service of this name, such as a reaction. */
  readonly isFullService: (name: string) => boolean;
  /** Runs a runner with all rights. */
  readonly run: (fun: string, arg: WireValue[], kwarg: WireMap, by: CallContext) => Promise<void>;
}

/**
 * Checks the name of a queue. In Salt it must be valid as the name of an SQL table.
 * @throws MasterError ERR_ARGS
 */
function nameOf(queue: string): string {
  if (/^[\w.-]{1,64}$/.test(queue)) return queue;
  throw refused('`queue` must be a name of 1 to 64 letters, digits, _ . and -');
}

function listOf(items: WireValue): readonly WireValue[] {
  return Array.isArray(items) ? items : [items];
}

/** Parses the argument `quantity`, a number of items. Returns `undefined` for `all`. */
function quantityOf(quantity: WireValue): number | undefined {
  if (quantity === 'all') return undefined;
  const count = numberOf(quantity) ?? 0;
  if (Number.isSafeInteger(count) && count > 0) return count;
  throw refused('`quantity` must be a positive whole number, or `all`');
}

function leftInQueue(queue: string, left: number): string {
  return `did not run ${left} calls in the queue ${queue}, because users, minions, or reactions without full rights have inserted them; list them with queue.list_items, and remove them with queue.delete`;
}

/** Name of the queue that `queue.insert_runner` uses by default. */
const runnerQueue = 'runners';

export function queueRunner({ store, bus, isFullService, run }: QueueRunnerDeps): FunctionTable {
  const queues = new Queues(store);
  // All queues are in the master's store, so the parameter that selects Salt's back end has no
  // effect.
  const backend = ignored;
  const quantity = optional(anything, 1);
  // The operator's runner calls run with all rights. A service, such as a reaction, acts for the
  // operator, but its rights can be limited.
  const insert = (
    queue: string,
    items: readonly WireValue[],
    { by }: CallContext,
  ): Promise<void> => {
    const isLimited = by?.who.kind === 'service' && !isFullService(by.who.name);
    const owner = isLimited ? ownerOfActor(by.who) : ownerOfValues({ by });
    return queues.insert(nameOf(queue), items, owner);
  };
  const pop = (queue: string, count: WireValue, context: CallContext): Promise<WireValue[]> =>
    queues.pop(nameOf(queue), quantityOf(count), ownerOfValues(context));
  const process = (queue: string, items: WireValue[]): WireMap => {
    const data: WireMap = { items, backend: 'saltbridge', queue };
    bus.fire(`salt/queue/${queue}/process`, data);
    return data;
  };
  return {
    'queue.insert': masterFunction({
      summary: 'Adds an item to a queue, or each item of a list.',
      parameters: { queue: required(text), items: required(anything), backend },
      call: async ({ queue, items }, context) => {
        await insert(queue, listOf(items), context);
        return true;
      },
    }),
    'queue.delete': masterFunction({
      summary: 'Removes an item from a queue, or each item of a list.',
      parameters: { queue: required(text), items: required(anything), backend },
      call: async ({ queue, items }, context) => {
        await queues.delete(nameOf(queue), listOf(items), ownerOfValues(context));
        return true;
      },
    }),
    'queue.list_queues': masterFunction({
      summary: 'Lists the queues that contain items.',
      parameters: { backend },
      call: (_values, context) => queues.names(ownerOfValues(context)),
    }),
    'queue.list_length': masterFunction({
      summary: 'Returns the number of items in a queue.',
      parameters: { queue: required(text), backend },
      call: ({ queue }, context) => queues.length(nameOf(queue), ownerOfValues(context)),
    }),
    'queue.list_items': masterFunction({
      summary: 'Lists the items of a queue, oldest first.',
      parameters: { queue: required(text), backend },
      call: ({ queue }, context) => queues.items(nameOf(queue), ownerOfValues(context)),
    }),
    'queue.pop': masterFunction({
      summary: 'Removes and returns the oldest items of a queue; quantity is a number or all.',
      parameters: {
        queue: required(text),
        quantity,
        backend,
        is_runner: optional(flag, false),
      },
      call: ({ queue, quantity: count }, context) => pop(queue, count, context),
    }),
    'queue.process_queue': masterFunction({
      summary:
        'Removes the oldest items of a queue, and publishes them in the event salt/queue/<queue>/process.',
      parameters: {
        queue: required(text),
        quantity,
        backend,
        is_runner: optional(flag, false),
      },
      call: async ({ queue, quantity: count }, context) =>
        process(queue, await pop(queue, count, context)),
    }),
    'queue.insert_runner': masterFunction({
      summary: 'Adds a runner call to a queue, for queue.process_runner.',
      parameters: {
        fun: required(text),
        args: optional(anything),
        kwargs: optional(map),
        queue: optional(text, runnerQueue),
        backend,
      },
      call: async ({ fun, args, kwargs = {}, queue }, context) => {
        const list = typeof args === 'string' ? args.split(',') : listOf(args ?? []);
        await insert(queue, [{ fun, args: [...list], kwargs }], context);
        return true;
      },
    }),
    'queue.process_runner': masterFunction({
      summary:
        'Removes the runner calls of the operator from a queue and runs them one after the other.',
      parameters: { quantity, queue: optional(text, runnerQueue), backend },
      call: async ({ quantity: count, queue }, context) => {
        // A user with access to this function could run every runner.
        requireLocalCaller(context);
        // The calls run with all rights, so those of other owners are not run.
        const isOperators = (owner: string): boolean => owner === operatorOwner;
        const items = await queues.pop(
          nameOf(queue),
          quantityOf(count),
          operatorOwner,
          isOperators,
        );
        process(queue, items);
        const failures: string[] = [];
        for (const call of items) {
          const { fun, args, kwargs } = Object(call);
          try {
            if (typeof fun !== 'string') throw refused('the item contains no function `fun`');
            await run(fun, [...listOf(args ?? [])], { ...Object(kwargs) }, context);
          } catch (error) {
            // The item is no longer in the queue, and the others are still to be run.
            failures.push(errorMessage(error));
          }
        }
        const left = await queues.lengthOfOthers(queue);
        const [first] = failures;
        const reports = [
          ...(left === 0 ? [] : [leftInQueue(queue, left)]),
          ...(first === undefined
            ? []
            : [`${failures.length} of ${items.length} calls were not run; the first: ${first}`]),
        ];
        if (reports.length > 0) throw refused(reports.join('. '));
        return null;
      },
    }),
  };
}
