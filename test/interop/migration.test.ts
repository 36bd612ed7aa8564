/** Migration from Salt's own master to ours and back, with the oldest and the newest minion. */

import { loadMasterConfig } from '#config';
import { freePort } from '../../bench/free-port.ts';
import { Fleet } from './fleet.ts';
import { startMaster } from './our-master.ts';
import { versionOf } from './program-version.ts';
import { exampleConfig, masterPrograms, minionPrograms, steps } from './programs.ts';
import { RealMaster } from './real-master.ts';

const programs = masterPrograms.length > 0 ? masterPrograms : [''];

for (const [index, program] of programs.entries()) {
  const title = `minions of salt-master number ${index + 1} answer ours on its directories, and it again`;
  steps('SALT_MINION', 'SALT_MASTER')(title, async (t) => {
    t.log(`salt-master ${await versionOf(program)}`);
    const [requestPort, publishPort] = [await freePort(), await freePort()];
    const mainFile = exampleConfig();
    t.log(`${mainFile.split('\n').length} lines of configuration`);
    const real = new RealMaster(program, { requestPort, publishPort }, mainFile);
    t.teardown(() => real.dispose());
    const oldestAndNewest = [...new Set([minionPrograms[0] ?? '', minionPrograms.at(-1) ?? ''])];
    const fleet = await Fleet.create({ requestPort, publishPort }, oldestAndNewest);
    t.teardown(() => fleet.dispose());

    real.start();
    fleet.start();
    await fleet.each(({ id }) => real.accept(id));
    await fleet.each(({ id }) => real.ping(id));
    await real.stop();
    const keyFiles = real.keyFiles();

    const { config, warnings } = await loadMasterConfig(real.configDirectory);
    t.true(
      warnings.every(({ kind }) => kind === 'not-served' || kind === 'not-needed'),
      'every option is known',
    );
    const ours = await startMaster(config);
    t.teardown(() => ours.close());
    const accepted = (await ours.api.keys.list()).map(({ id, state }) => [id, state]);
    t.deepEqual(
      accepted,
      fleet.ids.map((id) => [id, 'accepted']),
    );
    for (const { id, version } of fleet.minions) {
      // Targets use the data that salt-master has stored about its minions, before any minion has
      // sent new data.
      const tgt = `G@role:interop and G@saltversion:${version}*`;
      const plan = await ours.api.jobs.plan({ tgt, tgtType: 'compound' });
      t.deepEqual(
        plan.minions.map((planned) => [planned.id, planned.reason]),
        [[id, 'matched']],
      );
    }
    await fleet.connected(ours.api);
    await fleet.ask(ours.api, { fun: 'test.ping' });
    await ours.close();
    t.deepEqual(real.keyFiles(), keyFiles);

    real.start();
    await fleet.each(({ id }) => real.ping(id));
  });
}
