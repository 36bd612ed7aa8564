import { type StoredHead, version } from '../api/index.ts';
import type { KeyStore, KeyChange as KeyTransition, Seal } from '../auth/index.ts';
import type { ModuleDeps } from '../context/index.ts';
import { type Events, tags } from '../events/index.ts';
import { AuditBursts } from './audit-bursts.ts';
import { auditDirectory } from './audit-files.ts';
import { AuditLog } from './audit-log.ts';
import { type AuditEntry, type AuditTrail, noAudit } from './audit-record.ts';
import { AuditWitness } from './witness.ts';

/**
 * Writes an audit record about a key that has been accepted or revoked. The cause may be the
 * master, an operation, or a change of files in the PKI directory.
 */
function recordKeyChange(audit: AuditTrail, { id, from, to }: KeyTransition): void {
  const wasOrIsAccepted = from === 'accepted' || to === 'accepted';
  if (!wasOrIsAccepted) return;
  audit.append({
    who: { kind: 'master', name: '' },
    action: to === 'accepted' ? 'key.accepted' : 'key.revoked',
    on: [id],
    outcome: 'done',
    detail: `state of the key: from ${from ?? 'none'} to ${to ?? 'none'}`,
  });
}

/** Audit log, as other modules of the master use it. */
export interface Audit extends AuditTrail {
  /** Records policy decisions, and counts repeated ones. */
  readonly ruled: AuditBursts;
  readonly isFull: () => boolean;
  /** Calls the listener with each appended entry, before it is on disk. */
  readonly onAppend: (listener: (entry: AuditEntry) => void) => void;
  /**
   * Calls the listener with `true` when records can no longer be written, and with `false` when
   * they can be written again.
   */
  readonly onChange: (listener: (isFull: boolean) => void) => void;
  /**
   * Waits until all appended records are on disk. Resolves with the sequence number and hash of the
   * last record, or with `null` if auditing is disabled.
   */
  readonly flush: () => Promise<StoredHead | null>;
}

export interface AuditDeps extends ModuleDeps {
  readonly seal: Seal;
}

/**
 * Opens the audit log of a master.
 * @throws the system error if the log cannot be opened
 */
export async function createAudit({ config, context, seal }: AuditDeps): Promise<Audit> {
  const { ownStore: store, now, closers } = context;
  const { audit: options, stateDir } = config.fixed;
  if (!options.enabled) {
    const nothing = async (): Promise<null> => null;
    const ruled = new AuditBursts({ audit: noAudit, now });
    const unused = { isFull: () => false, onAppend: () => {}, onChange: () => {} };
    return { ...noAudit, ruled, ...unused, flush: nothing };
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
  const listeners: ((entry: AuditEntry) => void)[] = [];
  const trail: AuditTrail = {
    append: (entry) => {
      audit.append(entry);
      for (const listener of listeners) listener(entry);
    },
    digest: (value) => audit.digest(value),
  };
  const { cluster } = context;
  if (cluster !== undefined) {
    const witness = new AuditWitness({ audit, cluster, store: context.store, id: config.fixed.id });
    closers.add(witness, (it) => it.close());
  }
  return {
    ...trail,
    ruled: new AuditBursts({ audit: trail, now }),
    isFull: () => audit.isFull,
    onAppend: (listener) => {
      listeners.push(listener);
    },
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

/**
 * Writes audit records about the start and end of the master, and about changes of keys. Emits
 * events when the log cannot be written.
 */
export function auditMaster({ config, context, audit, auth, events }: MasterAuditDeps): void {
  audit.onChange((isFull) => events.bus.fire(isFull ? tags.auditFull : tags.auditRoom, {}));
  auth.keys.onChange((change) => {
    // In a cluster, each member records its own changes in its own audit log.
    if (!change.isElsewhere) recordKeyChange(audit, change);
  });
  const who = { kind: 'master', name: config.fixed.id } as const;
  const detail = `saltbridge ${version}, process ${process.pid}`;
  audit.append({ who, action: 'master.start', outcome: 'done', detail });
  context.closers.add(audit, (it) => {
    it.ruled.flush();
    it.append({ who, action: 'master.stop', outcome: 'done' });
  });
}
