/** What SLS say, as `state.orchestrate_show_sls` tells it [salt/modules/state.py show_sls]. */
import type { WireMap, WireValue } from '../../minion-protocol/index.ts';
import type { PlainData } from '../../template/index.ts';
import { toWire } from '../pillar/wire.ts';
import type { Compilation } from './compile-sls.ts';
import type { Body } from './high.ts';
import { verifyHigh } from './verify-high.ts';

/** By the master's id: what is said of each id, or what is wrong with it. */
export type ShownHigh = WireMap;

export function showHigh({ high, errors }: Compilation): WireValue {
  const problems = [...errors, ...verifyHigh(high)];
  if (problems.length > 0) return problems;
  const { bodies, extend, exclude } = high;
  const shown = new Map<PlainData, PlainData>(
    Array.from(bodies, ([id, body]) => [id, toData(body)]),
  );
  if (extend.length > 0) {
    shown.set(
      '__extend__',
      extend.map(({ id, body }) => new Map([[id, toData(body)]])),
    );
  }
  if (exclude.length > 0) shown.set('__exclude__', [...exclude]);
  return toWire(shown);
}

function toData({ states, sls, saltenv, includedFrom }: Body): PlainData {
  const data = new Map<PlainData, PlainData>([...states, ['__sls__', sls], ['__env__', saltenv]]);
  if (includedFrom.length > 0) data.set('__sls_included_from__', includedFrom);
  return data;
}
