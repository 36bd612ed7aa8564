/** Options under `saltbridge: audit:`, which configure the log of users' actions. */

import type { Static } from 'typebox';
import { bytes, flag, integer, mebibyte, section } from './schema.ts';

export const auditOptions = section(
  {
    enabled: flag({ default: true, description: 'Whether the audit log is written.' }),
    fileBytes: bytes(4096, 2 ** 40, {
      default: 64 * mebibyte,
      description: 'Size of a file after which the log continues in a new one.',
    }),
    keepFiles: integer(1, 100_000, {
      default: 16,
      description: 'Number of files to retain; the oldest is deleted first.',
    }),
  },
  {
    expected:
      'a map with any of enabled (true or false), file_bytes (4096 or more), keep_files (1 or more)',
  },
);

/** Options of the audit log. */
export type AuditOptions = Static<typeof auditOptions>;
