import { readFileSync } from 'node:fs';
import type { ExecutionContext } from 'ava';
import type { AuditEntry } from '#master';
import { type AuditReport, createLogger, verifyAudit } from '#master';
import { auditFiles, readHead } from '#master/audit/audit-files.ts';
import { AuditLog, type AuditLogOptions } from '#master/audit/audit-log.ts';
import { createMemoryStore, type Store } from '#store';
import { temporaryDirectory } from '../../helpers/temporary-directory.ts';

/** A log that a test opens and closes. */
export interface TestLog {
  readonly directory: string;
  readonly store: Store;
  open(options?: Partial<AuditLogOptions>): Promise<AuditLog>;
  /** Verifies the log with the end that the store contains. */
  verify(): Promise<AuditReport>;
  files(): Promise<string[]>;
  lines(): Promise<string[]>;
}

export function testLog(
  t: ExecutionContext,
  directory: string = temporaryDirectory(t),
  store: Store = createMemoryStore(),
): TestLog {
  const files = (): Promise<string[]> => auditFiles(directory);
  return {
    directory,
    store,
    files,
    open: async (options = {}) => {
      const audit = await AuditLog.open({
        directory,
        store,
        fileBytes: 1_000_000,
        keepFiles: 10,
        digestKey: new Uint8Array(32),
        onFull: () => {},
        now: () => 1_700_000_000_000,
        log: createLogger('quiet'),
        ...options,
      });
      t.teardown(() => audit.close());
      return audit;
    },
    verify: async () => verifyAudit(await files(), await readHead(store)),
    lines: async () => {
      const texts = (await files()).map((file) => readFileSync(file, 'utf8'));
      return texts.flatMap((text) => text.split('\n').filter(Boolean));
    },
  };
}

export function entry(what: string): AuditEntry {
  return { who: { kind: 'minion', name: 'web1' }, action: 'signal', what, outcome: 'denied' };
}
