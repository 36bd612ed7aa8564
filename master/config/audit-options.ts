/** `saltbridge: audit:` */
import { flag, integer, type OptionKind } from './option-kinds.ts';
import { readSection, type SectionTable } from './section-kind.ts';

/** What is kept of who did what. */
export interface AuditOptions {
  /** `enabled`: write the audit log. Default true. */
  readonly enabled: boolean;
  /** `file_bytes`: size of a file before the next one is begun. Default 64 MiB. */
  readonly fileBytes: number;
  /** `keep_files`: files that are kept, the oldest goes first. Default 16. */
  readonly keepFiles: number;
}

const table: SectionTable<AuditOptions> = {
  enabled: { name: 'enabled', kind: flag },
  fileBytes: { name: 'file_bytes', kind: integer(4096, 2 ** 40) },
  keepFiles: { name: 'keep_files', kind: integer(1, 100_000) },
};

/** What is so where nothing is said. */
export const auditDefaults: AuditOptions = {
  enabled: true,
  fileBytes: 64 * 1_048_576,
  keepFiles: 16,
};

/** A map; what is not in it has its default. */
export const auditOptions: OptionKind<AuditOptions> = {
  expected:
    'a map with any of enabled (true or false), file_bytes (4096 or more), keep_files (1 or more)',
  isPath: false,
  parse: (value) => {
    const section = readSection(table, value);
    return section && Object.freeze({ ...auditDefaults, ...section });
  },
};
