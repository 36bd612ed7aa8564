/** The `event` runner [salt/runners/event.py]. */

import { type Events, limitOwnerOf, MasterError, toJson } from '#master';
import { plainNumber } from '#minion-protocol';
import { writeJson } from '#runtime';
import { type FunctionTable, masterFunction } from '../functions/define-function.ts';
import { anything, flag, ignored, map, optional, required, text } from '../functions/parameters.ts';

interface EventRunnerDeps {
  readonly bus: Events['bus'];
  readonly events: Pick<Events['api'], 'subscribe'>;
}

/** Maximum time that `state.event` waits, in seconds. */
const maxWaitSeconds = 3600;
/** Maximum number of events that `state.event` returns. */
const maxEvents = 10_000;

export function eventRunner({ bus, events }: EventRunnerDeps): FunctionTable {
  return {
    'event.send': masterFunction({
      summary: 'Publishes an event on the event bus of the master.',
      parameters: { tag: required(text), data: optional(map) },
      call: ({ tag, data = {} }, { by }) => {
        bus.fire(tag, data, 'master', limitOwnerOf(by));
        return true;
      },
    }),
    'state.event': masterFunction({
      summary:
        'Waits for a number of events with matching tags; returns one line for each, unless quiet is true.',
      parameters: {
        tagmatch: optional(text, '*'),
        count: optional(anything, -1),
        quiet: optional(flag, false),
        sock_dir: ignored,
        pretty: optional(flag, false),
        node: optional(text, 'master'),
      },
      // Events may contain secrets of other users.
      isConfidential: true,
      call: async ({ tagmatch, count: given, quiet, pretty, node }, { by, closing }) => {
        const count = plainNumber(given);
        if (by !== undefined && by.who.kind !== 'local') {
          throw new MasterError(
            'ERR_ARGS',
            'state.event is only available on the local socket of the master',
          );
        }
        if (typeof count !== 'number' || count < 1 || count > maxEvents) {
          const problem = `\`count\` must be a number from 1 to ${maxEvents}`;
          throw new MasterError(
            'ERR_ARGS',
            `${problem}; use saltbridge events to follow without a limit`,
          );
        }
        if (node !== 'master') {
          throw new MasterError(
            'ERR_NOT_SERVED',
            '`node` must be `master`: events of minions cannot be followed',
          );
        }
        const signal = AbortSignal.any([closing, AbortSignal.timeout(maxWaitSeconds * 1000)]);
        const lines = await readEvents(events, { match: tagmatch, count, pretty, signal });
        return quiet ? null : lines.join('\n');
      },
    }),
  };
}

interface Watch {
  readonly match: string;
  readonly count: number;
  readonly pretty: boolean;
  readonly signal: AbortSignal;
}

/**
 * Reads events as lines: the tag, a tab and the data.
 * @throws MasterError ERR_ARGS
 */
async function readEvents(
  events: EventRunnerDeps['events'],
  { match, count, pretty, signal }: Watch,
): Promise<string[]> {
  const lines: string[] = [];
  for await (const { tag, data } of await events.subscribe({ match }, signal)) {
    lines.push(`${tag}\t${writeJson(toJson(data), pretty ? 4 : undefined)}`);
    if (lines.length >= count) return lines;
  }
  throw new MasterError('ERR_ARGS', `timed out: received ${lines.length} of ${count} events`);
}
