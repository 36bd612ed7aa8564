/**
 * Implements `salt.wait_for_event`: waits until events for all ids in a list have arrived
 * [salt/states/saltmod.py].
 */

import { isWireMap, plainNumber, pythonStr, type WireMap, type WireValue } from '#minion-protocol';
import { linkSignals, timeLimit } from '#runtime';
import { isList } from '../render/pillar-data.ts';
import { textOf } from '../render/pillar-wire.ts';
import type { OrchestrationContext } from './orchestration-context.ts';
import { type StateCall, type StateFunction, textGiven } from './state-function.ts';
import { type Outcome, untouched } from './state-result.ts';

/** Default timeout of `salt.wait_for_event`, in seconds. */
const defaultTimeout = 300;

export function waitForEvent(context: OrchestrationContext): StateFunction {
  return {
    required: ['id_list'],
    optional: ['event_id', 'timeout', 'node'],
    call: (call) => {
      if (!call.test) return wait(context, call);
      const comment = `Orchestration would wait for event '${call.name}'`;
      return untouched(comment);
    },
  };
}

async function wait(
  { events, signal, now }: OrchestrationContext,
  call: StateCall,
): Promise<Outcome> {
  const { at: startedAt, events: after } = (await call.step?.start(now(), events.position())) ?? {
    at: now(),
  };
  const missing = idsOf(call);
  const seen: string[] = [];
  const late = timeLimit(Math.max(0, startedAt + timeoutOf(call) - now()));
  const key = textGiven(call, 'event_id') ?? 'id';
  const request = { match: call.name, ...(after === undefined ? {} : { after }) };
  const end = linkSignals(signal, late.signal);
  try {
    for await (const { data } of await events.subscribe(request, end.signal)) {
      const found = new Set(identifiersIn(data, key));
      for (const id of [...missing].filter((one) => found.has(one))) {
        missing.delete(id);
        seen.push(id);
      }
      if (missing.size > 0) continue;
      const comment = `All events seen in ${(now() - startedAt) / 1000} seconds.`;
      return { result: true, changes: { minions_seen: seen }, comment };
    }
    signal.throwIfAborted();
    const changes: WireMap = seen.length > 0 ? { minions_seen: seen } : {};
    return { result: false, changes, comment: 'Timeout value reached.' };
  } finally {
    late.clear();
    end.unlink();
  }
}

function idsOf({ given }: StateCall): Set<string> {
  const list = given.get('id_list') ?? [];
  return new Set((isList(list) ? list : [list]).map(textOf));
}

function timeoutOf({ given }: StateCall): number {
  const seconds = plainNumber(given.get('timeout') ?? defaultTimeout);
  return (typeof seconds === 'number' ? seconds : defaultTimeout) * 1000;
}

/** Returns the ids that an event contains under a key, at the top level or in its `data`. */
function identifiersIn(data: WireMap, key: string): string[] {
  const inner = isWireMap(data.data) ? data.data[key] : undefined;
  const found: WireValue | undefined = data[key] ?? inner;
  if (found === undefined || found === null) return [];
  // `String` would throw for maps from the wire.
  return (Array.isArray(found) ? found : [found]).map((it) =>
    typeof it === 'object' ? pythonStr(it) : String(it),
  );
}
