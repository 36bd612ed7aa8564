/** Opens the audit log of a master, and records the master's own life. */

import { type StoredHead, version } from '../api/index.ts';
import type { KeyStore, KeyChange as KeyTransition, Seal } from '../auth/index.ts';
import type { ModuleDeps } from '../context/index.ts';
import { type Events, tags } from '../events/index.ts';
import { AuditBursts } from './audit-bursts.ts';
import { auditDirectory } from './audit-files.ts';
import { AuditLog } from './audit-log.ts';
import { type AuditTrail, noAudit } from './audit-record.ts';
import { AuditWitness } from './witness.ts';

/** What happened to a key, whoever did it: by itself, in the PKI directory, or by an operation. */
function tellKeyChange(audit: AuditTrail, { id, from, to }: KeyTransition): void {
  const wasOrIsAccepted = from === 'accepted' || to === 'accepted';
  if (!wasOrIsAccepted) return;
  audit.append({
    who: { kind: 'master', name: '' },
    action: to === 'accepted' ? 'key.accepted' : 'key.revoked',
    on: [id],
    outcome: 'done',
    detail: `from ${from ?? 'nowhere'} to ${to ?? 'nowhere'}`,
  });
}

/** The log as the rest of a master sees it. */
export interface Audit extends AuditTrail {
  /** What rules permitted and denied. */
  readonly ruled: AuditBursts;
  readonly isFull: () => boolean;
  /** Calls the listener when records find no room, and when they do again. */
  readonly onChange: (listener: (isFull: boolean) => void) => void;
  /** Resolves when all that was appended is on disk; `null`: nothing is audited. */
  readonly flush: () => Promise<StoredHead | null>;
}

export interface AuditDeps extends ModuleDeps {
  readonly seal: Seal;
}

/** @throws the system's error when the log cannot be opened */
export async function createAudit({ config, context, seal }: AuditDeps): Promise<Audit> {
  const { ownStore: store, now, closers } = context;
  const { audit: options, stateDir } = config.fixed;
  if (!options.enabled) {
    const nothing = async (): Promise<null> => null;
    const ruled = new AuditBursts({ audit: noAudit, now });
    return { ...noAudit, ruled, isFull: () => false, onChange: () => {}, flush: nothing };
  }
  const { fileBytes, keepFiles } = options;
  let tell: (isFull: boolean) => void = () => {};
  const audit = closers.add(
    await AuditLog.open({
      directory: auditDirectory({ stateDir }),
      store,
      fileBytes,
      keepFiles,
      digestKey: seal.derive('audit'),
      onFull: (isFull) => tell(isFull),
      now,
      log: context.log.child({ component: 'audit' }),
    }),
    (it) => it.close(),
  );
  const { cluster } = context;
  if (cluster !== undefined) {
    const witness = new AuditWitness({ audit, cluster, store: context.store, id: config.fixed.id });
    closers.add(witness, (it) => it.close());
  }
  return {
    append: audit.append.bind(audit),
    digest: audit.digest.bind(audit),
    ruled: new AuditBursts({ audit, now }),
    isFull: () => audit.isFull,
    onChange: (listener) => {
      tell = listener;
    },
    flush: () => audit.flush(),
  };
}

export interface MasterAuditDeps extends Omit<AuditDeps, 'seal'> {
  readonly audit: Audit;
  readonly auth: { readonly keys: KeyStore };
  readonly events: Events;
}

/** Audits the master's own life and its keys, and tells when the log has no room. */
export function auditMaster({ config, context, audit, auth, events }: MasterAuditDeps): void {
  audit.onChange((isFull) => events.bus.fire(isFull ? tags.auditFull : tags.auditRoom, {}));
  auth.keys.onChange((change) => {
    // Another member's log has what it did.
    if (!change.isElsewhere) tellKeyChange(audit, change);
  });
  const who = { kind: 'master', name: config.fixed.id } as const;
  const detail = `saltbridge ${version}, process ${process.pid}`;
  audit.append({ who, action: 'master.start', outcome: 'done', detail });
  context.closers.add(audit, (it) => {
    it.ruled.flush();
    it.append({ who, action: 'master.stop', outcome: 'done' });
  });
}
