/** Whether a publication is meant for this minion: by id, as glob, pcre or list [WIRE 12.1]. */
import { compileGlob } from '../glob.ts';
import type { PublicationLoad } from '../loads.ts';

/** Targets by grains, pillar or compound expressions match nothing here. */
export function isTargeted(id: string, { tgt, tgt_type: type = 'glob' }: PublicationLoad): boolean {
  if (type === 'list') return (typeof tgt === 'string' ? tgt.split(',') : tgt).includes(id);
  return type === 'glob' && typeof tgt === 'string' && compileGlob(tgt)(id);
}
