/** The mine's requests [WIRE 9.2, 9.6]. A minion's own is the only one that it can change. */
import { isWireMap, type WireMap, type WireValue } from '../../minion-protocol/index.ts';
import type { RequestCounters } from '../limits/counters.ts';
import type { MineQuery, MineReader } from '../mine/mine-reader.ts';
import type { MineStore } from '../mine/mine-store.ts';
import type { TargetRequest } from '../targeting/parse.ts';
import { type Handler, send, type VerifiedRequest } from './request.ts';
import { requestMark } from './request-mark.ts';

/** What the handlers need. */
export interface MineHandlerOptions {
  readonly mine: MineStore;
  readonly reader: MineReader;
  readonly counters: RequestCounters;
}

/** The handlers by their `cmd`. */
export interface MineHandlers {
  readonly _mine: Handler;
  readonly _mine_get: Handler;
  readonly _mine_delete: Handler;
  readonly _mine_flush: Handler;
}

export function mineHandlers(options: MineHandlerOptions): MineHandlers {
  const { mine, counters } = options;
  return {
    _mine: async (request) => {
      const { data, clear } = request.load;
      if (request.minionId === undefined || !isWireMap(data)) return send({});
      const update = { data, clear: clear === true };
      // protection: mine-of-any
      const leftOut = await mine.update(request.minionId, update, requestMark(request));
      for (const _fun of leftOut) counters.count('mine-bytes');
      return send(leftOut.length === 0);
    },
    _mine_get: async (request) => send(await answer(request, options)),
    _mine_delete: async (request) => {
      const { minionId, load } = request;
      if (minionId === undefined || typeof load.fun !== 'string') return send({});
      await mine.delete(minionId, load.fun, requestMark(request));
      return send(true);
    },
    _mine_flush: async (request) => {
      if (request.minionId === undefined) return send({});
      await mine.flush(request.minionId, requestMark(request));
      return send(true);
    },
  };
}

async function answer(
  { minionId, load }: VerifiedRequest,
  { reader, counters }: MineHandlerOptions,
): Promise<WireMap> {
  const query = toQuery(load);
  if (minionId === undefined || query === undefined) return {};
  const read = await reader.read(minionId, query);
  if (!read.ok) {
    counters.count(read.reason);
    return {};
  }
  if (read.isWithheld) counters.count('mine-withheld');
  return read.value;
}

function toQuery(load: WireMap): MineQuery | undefined {
  const target = toTarget(load);
  const { fun } = load;
  if (target === undefined) return undefined;
  if (typeof fun === 'string') return { target, funs: fun.split(','), isByFunction: false };
  return isTexts(fun) ? { target, funs: fun, isByFunction: true } : undefined;
}

/** `expr_form` is what minions call the type that know no other name for it. */
function toTarget({ tgt, tgt_type: tgtType, expr_form: form }: WireMap): TargetRequest | undefined {
  const type = tgtType ?? form ?? 'glob';
  if (typeof type !== 'string' || (typeof tgt !== 'string' && !isTexts(tgt))) return undefined;
  return { tgt, tgtType: type.toLowerCase() };
}

function isTexts(value: WireValue | undefined): value is string[] {
  return Array.isArray(value) && value.every((item) => typeof item === 'string');
}
