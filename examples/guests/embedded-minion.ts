/**
 * Runs a minion of the library as a process: `node embedded-minion.js ID FOLDER MASTER PORT`. The
 * example uses it in the namespace of a network if no salt-minion is given. Its keys are stored
 * where a salt-minion stores them.
 */

import path from 'node:path';
import { createMinion, dialZeromq, openMinionKeys } from '#minion-protocol';

const [id = '', folder = '', host = '', port = ''] = process.argv.slice(2);
const minion = createMinion({
  id,
  keys: await openMinionKeys(path.join(folder, 'pki')),
  transport: dialZeromq({ host, requestPort: Number(port) }),
  acceptanceWaitMs: 500,
});
await minion.start();
