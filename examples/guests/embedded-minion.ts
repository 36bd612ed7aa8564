/**
 * A minion of the library as a process, for the namespace of a network where no salt-minion is named:
 * `node embedded-minion.js ID FOLDER MASTER PORT`. Its keys are where a salt-minion's are.
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
