/** Request handlers of the mine [WIRE 9.2, 9.6]. A minion changes only its own entries. */

import {
  anyLoad,
  DropConnectionError,
  defineRequestType,
  type Jobs,
  type MasterContext,
  minionOwner,
  type OpenExtension,
  type ProvenRequest,
  requestDigest,
  send,
  type TargetRequest,
} from '#master';
import { isWireMap, type WireMap, type WireValue } from '#minion-protocol';
import { LimitExceeded, WorkBudget, WorkLimitExceeded, type WorkLimits } from '#runtime';
import { manyElements, saltLimits } from '../limits.ts';
import { readMineEntry } from './mine-entry.ts';
import type { MineQuery, MineReader } from './mine-reader.ts';
import type { MineStore } from './mine-store.ts';

/**
 * Limit of the work that the targets in one update may cause. The limit is low, because the
 * connection of the minion does not process its next request before the update has ended.
 */
const updateWork: WorkLimits = { steps: 2_000_000 };

export interface MineRequestOptions {
  readonly mine: MineStore;
  readonly reader: MineReader;
  readonly targets: Pick<Jobs['targets'], 'isStorable'>;
  readonly counters: MasterContext['counters'];
}

export function mineRequests(options: MineRequestOptions): NonNullable<OpenExtension['requests']> {
  const { mine, counters } = options;
  return {
    _mine: defineRequestType({
      kind: 'once',
      needsToken: true,
      rate: 'requests',
      maxElements: manyElements,
      isBrief: true,
      load: (load) => (isWireMap(load.data) ? load : undefined),
      handle: async (request, { data, clear }) => {
        const budget = new WorkBudget(updateWork, minionOwner(request.minionId));
        const sent = isWireMap(data) ? data : {};
        if (hasTooMany(sent)) {
          counters.count('mine-functions');
          return send(false);
        }
        const { storable, refused } = await checkTargets(sent, budget, options);
        for (const _fun of refused) counters.count('mine-allow-tgt');
        // The key and its mine may have been deleted meanwhile.
        if (!request.isKeyCurrent()) return send(false);
        const update = { data: storable, clear: clear === true };
        const leftOut = await mine.update(request.minionId, update, requestDigest(request));
        for (const _fun of leftOut) counters.count('mine-bytes');
        return send(leftOut.length + refused.length === 0);
      },
    }),
    _mine_get: defineRequestType({
      kind: 'read',
      needsToken: true,
      rate: 'requests',
      maxElements: manyElements,
      load: toQuery,
      handle: async (request, query) => send(await answer(request, query, options)),
    }),
    _mine_delete: defineRequestType({
      kind: 'once',
      needsToken: true,
      rate: 'requests',
      load: ({ fun }) => (typeof fun === 'string' ? fun : undefined),
      handle: async (request, fun) => {
        await mine.delete(request.minionId, fun, requestDigest(request));
        return send(true);
      },
    }),
    _mine_flush: defineRequestType({
      kind: 'once',
      needsToken: true,
      rate: 'requests',
      load: anyLoad,
      handle: async (request) => {
        await mine.flush(request.minionId, requestDigest(request));
        return send(true);
      },
    }),
  };
}

/** Whether an update has more functions than one update may have. */
function hasTooMany(sent: WireMap): boolean {
  return Object.keys(sent).length > (saltLimits.mineFunctions.perOwner ?? Infinity);
}

/**
 * Separates the values that the mine can store from the values that it refuses. It refuses a value
 * if compiling the target in its `allow_tgt` takes too much work. When the budget of the request is
 * used up, all targets not compiled yet count as too much work.
 */
async function checkTargets(
  data: WireMap,
  budget: WorkBudget,
  { targets }: MineRequestOptions,
): Promise<{ readonly storable: WireMap; readonly refused: readonly string[] }> {
  // Most values of a minion have the same target, so each target is compiled once per request.
  const verdicts = new Map<string, boolean>();
  let isOver = false;
  const isStorable = (allowed: TargetRequest): boolean => {
    const name = JSON.stringify(allowed);
    let verdict = verdicts.get(name);
    if (verdict !== undefined || isOver) return verdict ?? false;
    try {
      verdict = targets.isStorable(allowed, budget);
    } catch (error) {
      if (!(error instanceof WorkLimitExceeded)) throw error;
      isOver = true;
      return false;
    }
    verdicts.set(name, verdict);
    return verdict;
  };
  const storable: WireMap = Object.create(null);
  const refused: string[] = [];
  for (const [fun, value] of Object.entries(data)) {
    const { allowed } = readMineEntry(value);
    if (allowed === undefined || isStorable(allowed)) storable[fun] = value;
    else refused.push(fun);
    if (budget.isSliceOver) await budget.giveWay();
  }
  return { storable, refused };
}

async function answer(
  { minionId }: ProvenRequest,
  query: MineQuery,
  { reader, counters }: MineRequestOptions,
): Promise<WireMap> {
  const read = await reader.read(minionId, query).catch(refuseIfBusy);
  if (!read.ok) {
    counters.count(read.reason);
    return {};
  }
  if (read.isWithheld) counters.count('mine-withheld');
  return read.value;
}

/**
 * Leaves a request without a reply if too many queries of the minion are waiting. An empty reply
 * would look like an empty mine.
 */
function refuseIfBusy(error: unknown): never {
  if (error instanceof LimitExceeded) throw new DropConnectionError('too-many-waiting');
  throw error;
}

function toQuery(load: WireMap): MineQuery | undefined {
  const target = toTarget(load);
  const { fun } = load;
  if (target === undefined) return undefined;
  return typeof fun === 'string' || isTexts(fun) ? { target, fun } : undefined;
}

/** Reads the target of a query. Older minions send the target's type as `expr_form`. */
function toTarget({ tgt, tgt_type: tgtType, expr_form: form }: WireMap): TargetRequest | undefined {
  const type = tgtType ?? form ?? 'glob';
  if (typeof type !== 'string' || (typeof tgt !== 'string' && !isTexts(tgt))) return undefined;
  return { tgt, tgtType: type.toLowerCase() };
}

function isTexts(value: WireValue | undefined): value is string[] {
  return Array.isArray(value) && value.every((item) => typeof item === 'string');
}
