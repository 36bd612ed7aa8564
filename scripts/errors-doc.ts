// Writes the meaning, action and retry of each error code into the tables of docs/errors.md. The
// texts come from the error tables of the rooms. For a new code, add a row with the code to a
// section of the page. With --check, the script only compares the page with the tables.
import { policyErrors } from '#acl';
import { commandErrors } from '#cli/errors.ts';
import { clientErrors, sharedMasterErrors } from '#client';
import { configErrors } from '#config';
import { edgeErrors } from '#edge';
import { bridgeErrors } from '#heat-bridge/errors.ts';
import { masterErrors } from '#master/api/errors.ts';
import { keyErrors } from '#master/auth/key-errors.ts';
import { authenticationErrors, authorizationErrors } from '#master/users/errors.ts';
import { protocolErrors } from '#minion-protocol/errors.ts';
import { transportErrors } from '#minion-protocol/transport/transport.ts';
import type { ErrorEntry } from '#runtime';
import { limitErrors } from '#runtime/limits.ts';
import { runtimeErrors } from '#runtime/optional-package.ts';
import { workErrors } from '#runtime/work-budget.ts';
import { saltApiErrors } from '#salt-api';
import { processErrors } from '#server/process/errors.ts';
import { storeErrors } from '#store';
import { templateErrors } from '#template';
import { tableOf, updatePage } from './generated-page.ts';

/** Tables of error codes of all directories of the project. */
export const errorTables: readonly Readonly<Record<string, ErrorEntry>>[] = [
  runtimeErrors,
  limitErrors,
  workErrors,
  protocolErrors,
  transportErrors,
  storeErrors,
  configErrors,
  policyErrors,
  keyErrors,
  masterErrors,
  authenticationErrors,
  authorizationErrors,
  saltApiErrors,
  clientErrors,
  sharedMasterErrors,
  bridgeErrors,
  edgeErrors,
  commandErrors,
  processErrors,
  templateErrors,
];

const head = ['code', 'meaning', 'what to do', 'repeating the call may succeed'];

/** Returns the text of a page with its tables filled from {@link errorTables}. */
function withErrorTables(page: string): string {
  const entries = new Map(errorTables.flatMap((table) => Object.entries(table)));
  return page.replaceAll(/^\| code .*\n\|[ -|]*\n(?:\| `ERR_.*\n)+/gm, (table) => {
    const codes = [...table.matchAll(/^\| `(ERR_\w+)`/gm)].map(([, code]) => code);
    const rows = codes.flatMap((code = '') => {
      const entry = entries.get(code);
      if (entry === undefined) return [];
      return [[`\`${code}\``, entry.meaning, entry.action, entry.retry === true ? 'yes' : 'no']];
    });
    return tableOf(head, rows);
  });
}

if (import.meta.main || process.argv[1]?.endsWith('docs.js')) {
  updatePage('docs/errors.md', withErrorTables);
}
