import type { Closers } from '../closers.ts';
import type { EventBus } from '../events/bus.ts';
import { tags } from '../events/tags.ts';
import type { Foundations } from '../foundations.ts';
import { version } from '../version.ts';
import { tellKeyChange } from './audited-keys.ts';

/** Audits the master's own life and its keys, and tells when the log has no room. */
export function startAudit(
  { audit, keys }: Pick<Foundations, 'audit' | 'keys'>,
  bus: EventBus,
  id: string,
  closers: Closers,
): void {
  audit.onChange((isFull) => bus.fire(isFull ? tags.auditFull : tags.auditRoom, {}));
  keys.onChange((change) => tellKeyChange(audit, change));
  const who = { kind: 'master', name: id } as const;
  const detail = `saltbridge ${version}, process ${process.pid}`;
  audit.append({ who, action: 'master.start', outcome: 'done', detail });
  closers.add(audit, (it) => it.append({ who, action: 'master.stop', outcome: 'done' }));
}
