// Writes the tables in docs/compatibility/ from the compatibility table of the sources. With
// --check, the script only compares them.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { resolveMasterConfig } from '#config';
import {
  compatibilityPages,
  compatibilityRows,
  withCompatibilityTables,
} from '#salt/compatibility.ts';
import { createMaster } from '#server';
import { createMemoryStore } from '#store';
import { updatePage } from './generated-page.ts';

const rootDir = mkdtempSync(path.join(tmpdir(), 'saltbridge-'));
const config = resolveMasterConfig({ rootDir, interface: '127.0.0.1', publishPort: 0, retPort: 0 });
const master = createMaster({ config, store: createMemoryStore() });
try {
  await master.start();
  const [runners, wheel] = await Promise.all([master.runners.docs(), master.wheel.docs()]);
  const served = {
    runners: new Set(Object.keys(runners)),
    wheel: new Set(Object.keys(wheel)),
  };
  const rows = compatibilityRows(served);
  for (const [name, kinds] of Object.entries(compatibilityPages)) {
    updatePage(name, (page) => withCompatibilityTables(page, rows, kinds));
  }
} finally {
  await master.close();
  rmSync(rootDir, { recursive: true, force: true });
}
