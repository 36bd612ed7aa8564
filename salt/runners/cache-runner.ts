/** The `cache` runner: cached data of minions, and banks of the store [salt/runners/cache.py]. */

import { type Jobs, MasterError, type MasterFunction, workBudgetOf } from '#master';
import type { FactSource, WireMap, WireValue } from '#minion-protocol';
import { type FunctionTable, masterFunction } from '../functions/define-function.ts';
import { anything, ignored, optional, required, target, text } from '../functions/parameters.ts';
import type { MineStore } from '../mine/mine-store.ts';
import { type RequesterTargets, targetedMinions } from '../minion-calls.ts';
import type { CacheBanks } from './cache-banks.ts';
import { ownerOfValues } from './stored-amounts.ts';

export interface CacheRunnerDeps {
  readonly facts: Pick<Jobs['facts'], 'forgetPart' | 'of'>;
  /** Mine of the minions. If it is `undefined`, the functions about the mine do not exist. */
  readonly mine: MineStore | undefined;
  readonly targets: RequesterTargets;
  readonly acceptedIds: () => readonly string[];
  /** Banks of values that do not belong to minions. */
  readonly banks: CacheBanks;
}

type Part = 'grains' | 'pillar' | 'mine';

/**
 * Estimated work for reading and unpacking either the grains, the pillar or the mine of one minion,
 * in steps of a `WorkBudget`.
 */
const stepsOfPart = 20_000;
/**
 * Estimated work for deleting the grains, pillar or mine of one minion, in steps of a `WorkBudget`.
 * It does not include the write to the disk.
 */
const stepsOfDeletion = 2000;

export function cacheRunner(parts: CacheRunnerDeps): FunctionTable {
  return { ...factFunctions(parts), ...bankFunctions(parts), ...mineFunctions(parts) };
}

function factFunctions(parts: CacheRunnerDeps): FunctionTable {
  return {
    'cache.grains': show(parts, 'grains', 'Returns the latest grains of minions.'),
    'cache.pillar': show(parts, 'pillar', 'Returns the latest pillar of minions.'),
    'cache.clear_grains': clear(parts, ['grains'], 'Deletes the cached grains of minions.'),
    'cache.clear_pillar': clear(parts, ['pillar'], 'Deletes the cached pillar of minions.'),
    'cache.clear_all': clear(
      parts,
      ['grains', 'pillar', 'mine'],
      'Deletes the cached grains, pillar and mine of minions.',
    ),
  };
}

function mineFunctions(parts: CacheRunnerDeps): FunctionTable {
  const { mine, targets } = parts;
  if (mine === undefined) return {};
  return {
    'cache.mine': show(parts, 'mine', 'Returns the mine of minions.'),
    'cache.clear_mine': clear(parts, ['mine'], 'Deletes the mine of minions.'),
    'cache.clear_mine_func': masterFunction({
      summary: 'Deletes one function from the mine of minions.',
      parameters: {
        tgt: optional(target),
        tgt_type: optional(text, 'glob'),
        clear_mine_func_flag: required(text),
      },
      call: async ({ tgt, tgt_type: tgtType, clear_mine_func_flag: fun }, context) => {
        if (tgt === undefined) return false;
        const { minions } = await targetedMinions({ tgt, tgtType }, context, targets);
        for (const id of minions) await mine.delete(id, fun, undefined);
        return true;
      },
    }),
  };
}

function bankFunctions(parts: CacheRunnerDeps): FunctionTable {
  return {
    'cache.list': masterFunction({
      summary:
        'Lists the keys of a bank: minions, minions/<id>, or one that cache.store has filled.',
      parameters: { bank: required(text), cachedir: ignored },
      call: ({ bank }, context) => {
        if (bank === 'minions') return parts.acceptedIds().filter((id) => isKnown(parts, id));
        const id = minionOf(bank);
        if (id === undefined) return parts.banks.keys(bank, ownerOfValues(context));
        return isKnown(parts, id) ? ['data', 'mine'] : [];
      },
    }),
    'cache.fetch': masterFunction({
      summary:
        'Returns a value of a bank; the keys of minions/<id> are data (grains and pillar) and mine.',
      parameters: { bank: required(text), key: required(text), cachedir: ignored },
      call: async ({ bank, key }) => {
        const id = minionOf(bank);
        if (id === undefined) return (await parts.banks.get(bank, key)) ?? {};
        if (key === 'mine') return (await parts.mine?.all(id)) ?? {};
        if (key !== 'data' || !isKnown(parts, id)) return {};
        const { grains, pillar } = parts.facts.of(id);
        return { grains: grains?.whole() ?? null, pillar: pillar?.whole() ?? null };
      },
    }),
    'cache.store': masterFunction({
      summary: 'Stores a value in a bank; the banks of minions are read-only.',
      parameters: {
        bank: required(text),
        key: required(text),
        data: required(anything),
        cachedir: ignored,
      },
      call: async ({ bank, key, data }, context) => {
        if (isOfMinions(bank)) {
          throw new MasterError(
            'ERR_ARGS',
            `${bank}: this bank is read-only, because it holds data of minions`,
          );
        }
        await parts.banks.put(bank, key, data, ownerOfValues(context));
        return null;
      },
    }),
    'cache.flush': masterFunction({
      summary: 'Removes a value from a bank; without key, removes the bank and all banks below it.',
      parameters: { bank: required(text), key: optional(text), cachedir: ignored },
      call: async ({ bank, key }, context) => {
        const id = minionOf(bank);
        if (id !== undefined) await flushMinion(parts, id, key);
        else if (!isOfMinions(bank)) await parts.banks.remove(bank, key, ownerOfValues(context));
        else
          throw new MasterError(
            'ERR_ARGS',
            '`bank` must name one minion, in the form minions/<id>; to delete the data of several minions, use cache.clear_all',
          );
        return null;
      },
    }),
  };
}

async function flushMinion(
  { facts, mine }: CacheRunnerDeps,
  id: string,
  key: string | undefined,
): Promise<void> {
  if (key === undefined || key === 'mine') await mine?.flush(id);
  if (key !== undefined && key !== 'data') return;
  await facts.forgetPart(id, 'grains');
  await facts.forgetPart(id, 'pillar');
}

function isKnown({ facts }: CacheRunnerDeps, id: string): boolean {
  const { grains, pillar } = facts.of(id);
  return grains !== undefined || pillar !== undefined;
}

/** Returns the minion to which a bank belongs, or `undefined`. */
function minionOf(bank: string): string | undefined {
  return /^minions\/([^/]+)$/.exec(bank)?.[1];
}

function isOfMinions(bank: string): boolean {
  return bank === 'minions' || bank.startsWith('minions/');
}

function show(parts: CacheRunnerDeps, part: Part, summary: string): MasterFunction {
  return masterFunction({
    summary,
    parameters: { tgt: optional(target, '*'), tgt_type: optional(text, 'glob') },
    takesMore: true,
    call: async ({ tgt, tgt_type: tgtType }, context) => {
      const { minions } = await targetedMinions({ tgt, tgtType }, context, parts.targets);
      const found: WireMap = Object.create(null);
      const budget = workBudgetOf(context.by);
      for (const id of minions) {
        await budget.giveWayAfter(stepsOfPart);
        const value = await read(parts, part, id);
        if (value !== undefined) found[id] = value;
      }
      return found;
    },
  });
}

async function read(
  { facts, mine }: CacheRunnerDeps,
  part: Part,
  id: string,
): Promise<WireValue | undefined> {
  if (part !== 'mine') {
    const source: FactSource | undefined = facts.of(id)[part];
    return source?.whole();
  }
  const all = (await mine?.all(id)) ?? {};
  return Object.keys(all).length === 0 ? undefined : all;
}

function clear(parts: CacheRunnerDeps, what: readonly Part[], summary: string): MasterFunction {
  return masterFunction({
    summary,
    parameters: { tgt: optional(target), tgt_type: optional(text, 'glob') },
    call: async ({ tgt, tgt_type: tgtType }, context) => {
      if (tgt === undefined) return false;
      const { minions } = await targetedMinions({ tgt, tgtType }, context, parts.targets);
      const budget = workBudgetOf(context.by);
      for (const id of minions) {
        for (const part of what) {
          await budget.giveWayAfter(stepsOfDeletion);
          await (part === 'mine' ? parts.mine?.flush(id) : parts.facts.forgetPart(id, part));
        }
      }
      return true;
    },
  });
}
