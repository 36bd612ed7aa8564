/** Files that minions push while their keys are deleted. */

import { existsSync } from 'node:fs';
import test from 'ava';
import { resolveMasterConfig } from '#config';
import { rulesOf } from '#config/policy-rules.ts';
import { createSilentLogger, FileMeter } from '#master';
import { RequestCounters } from '#master/metrics/index.ts';
import { FileServer } from '#salt/file-trees/file-server.ts';
import { fileRequests } from '#salt/files/file-requests.ts';
import { PushedFiles } from '#salt/files/pushed-files.ts';
import { gateOf, policyOf } from '../../helpers/policies.ts';
import { temporaryDirectory } from '../../helpers/temporary-directory.ts';

const limits = { maxFileBytes: 1000, maxMinionBytes: 0, maxMinionFiles: 0 };

test('a file is not stored if the key of its minion is deleted while the request waits', async (t) => {
  const cachedir = temporaryDirectory(t);
  const counters = new RequestCounters();
  const accepted = new Set(['m1', 'm2']);
  class DeletingMeter extends FileMeter {
    override async pass(): Promise<void> {
      accepted.delete('m1');
    }
  }
  const requests = fileRequests({
    server: new FileServer([]),
    pushed: new PushedFiles({ cachedir, ...limits }),
    meter: new DeletingMeter(0, counters),
    hashType: 'sha256',
    bufferBytes: 1000,
    gate: gateOf(policyOf(rulesOf(resolveMasterConfig({ fileRecv: true })))),
    ...{ counters, log: createSilentLogger() },
  });
  const push = (minionId: string) =>
    requests._file_recv?.handler({
      ...{ minionId, isProven: true, isKeyCurrent: () => accepted.has(minionId), version: 3 },
      ...{ nonce: undefined, ts: undefined, address: '192.0.2.1', bytes: 100 },
      ...{ mac: Buffer.alloc(32), packed: Buffer.alloc(0) },
      load: { cmd: '_file_recv', path: ['x'], loc: 0, data: 'x' },
      ...{ encAlgo: 'OAEP-SHA1', sigAlgo: 'PKCS1v15-SHA1' },
    });
  await push('m1');
  await push('m2');
  const isStored = (id: string): boolean => existsSync(`${cachedir}/minions/${id}/files/x`);
  t.deepEqual([isStored('m1'), isStored('m2')], [false, true]);
});
