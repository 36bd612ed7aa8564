/** Takes out what `exclude` names [salt/state.py apply_exclude]. */
import type { PlainData } from '../../template/index.ts';
import { isPillarMap } from '../pillar/merge.ts';
import { matchesGlob } from './data.ts';
import type { High } from './high.ts';

export function applyExclude({ bodies, exclude }: High): void {
  const ids = new Set<PlainData>();
  const patterns: string[] = [];
  for (const item of exclude) {
    if (typeof item === 'string') patterns.push(item);
    if (!isPillarMap(item) || item.size !== 1) continue;
    const [sls, id] = [item.get('sls'), item.get('id')];
    if (typeof sls === 'string') patterns.push(sls);
    if (id !== undefined) ids.add(id);
  }
  for (const [id, { sls }] of bodies) {
    if (patterns.some((pattern) => matchesGlob(sls, pattern))) ids.add(id);
  }
  for (const id of ids) bodies.delete(id);
}
