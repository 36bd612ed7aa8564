/** The audit log of a master, from its parts. */
import type { Logger } from 'pino';
import type { Store } from '../../store/index.ts';
import type { MasterConfig } from '../config/options.ts';
import type { Seal } from '../secrets/seal.ts';
import { AuditLog } from './audit-log.ts';
import { auditDirectory } from './files.ts';
import type { StoredHead } from './head.ts';
import { type AuditTrail, noAudit } from './record.ts';

/** The log as the rest of a master sees it. */
export interface Audit extends AuditTrail {
  readonly isFull: () => boolean;
  /** Calls the listener when records find no room, and when they do again. */
  readonly onChange: (listener: (isFull: boolean) => void) => void;
  /** Resolves when all that was appended is on disk; `null`: nothing is audited. */
  readonly flush: () => Promise<StoredHead | null>;
  readonly close: () => Promise<void>;
}

/** What {@link openAudit} needs. */
export interface AuditParts {
  readonly config: Pick<MasterConfig, 'audit' | 'stateDir'>;
  readonly store: Store;
  readonly seal: Seal;
  readonly now: () => number;
  readonly log: Logger;
}

/** @throws the system's error when the log cannot be opened */
export async function openAudit({ config, store, seal, now, log }: AuditParts): Promise<Audit> {
  const { enabled, fileBytes, keepFiles } = config.audit;
  if (!enabled) {
    const nothing = async (): Promise<null> => null;
    const close = async (): Promise<void> => {};
    return { ...noAudit, isFull: () => false, onChange: () => {}, flush: nothing, close };
  }
  let tell: (isFull: boolean) => void = () => {};
  const audit = await AuditLog.open({
    directory: auditDirectory(config),
    store,
    fileBytes,
    keepFiles,
    digestKey: seal.derive('audit'),
    onFull: (isFull) => tell(isFull),
    now,
    log,
  });
  return {
    append: (entry) => audit.append(entry),
    digest: (value) => audit.digest(value),
    isFull: () => audit.isFull,
    onChange: (listener) => {
      tell = listener;
    },
    flush: () => audit.flush(),
    close: () => audit.close(),
  };
}
