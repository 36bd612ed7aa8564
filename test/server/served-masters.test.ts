/** The masters of one process: what a reload does while they start. */

import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import test, { type ExecutionContext } from 'ava';
import { loadServedConfig } from '#server/process/load-served-config.ts';
import { openMasterLog } from '#server/process/log.ts';
import { ServedMasters } from '#server/process/served-masters.ts';
import { within } from '../helpers/deadline.ts';
import { layMasterKey } from '../helpers/rsa-keys.ts';
import { temporaryDirectory } from '../helpers/temporary-directory.ts';

interface Served {
  readonly masters: ServedMasters;
  configure(options: object): void;
  messages(): readonly string[];
}

/** Creates the master of a new directory, without starting it. */
async function makeServed(t: ExecutionContext): Promise<Served> {
  const directory = temporaryDirectory(t);
  const configure = (options: object): void =>
    writeFileSync(
      path.join(directory, 'master'),
      JSON.stringify({
        root_dir: directory,
        interface: '127.0.0.1',
        publish_port: 0,
        ret_port: 0,
        log_level_logfile: 'info',
        ...options,
      }),
    );
  configure({});
  const { loaded } = await loadServedConfig(directory);
  layMasterKey(loaded.config.pkiDir);
  const options = { stderr: undefined, level: undefined, owner: undefined };
  const log = openMasterLog(loaded.config, options);
  const masters = await ServedMasters.create(directory, loaded, log, options);
  t.teardown(() => masters.close());
  return {
    masters,
    configure,
    messages: () =>
      readFileSync(loaded.config.logFile, 'utf8')
        .split('\n')
        .filter((line) => line !== '')
        .map((line) => JSON.parse(line).msg),
  };
}

test('a reload during the start takes effect after the start', async (t) => {
  const { masters, configure, messages } = await makeServed(t);
  configure({ timeout: 9 });
  const reloaded = masters.reload();
  await masters.start();
  await within('the reload', reloaded);
  t.true(messages().includes('reloaded the configuration'), messages().join('\n'));
});

test('a reload of masters that are closed before they start does nothing', async (t) => {
  const { masters, messages } = await makeServed(t);
  const reloaded = masters.reload();
  await masters.close();
  await within('the reload', reloaded);
  t.deepEqual(
    messages().filter((message) => message.includes('reloaded')),
    [],
  );
});
