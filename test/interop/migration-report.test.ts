/**
 * The migration report and the doctor with files of a real salt-master, while it runs and
 * afterwards.
 */
import { existsSync } from 'node:fs';
import path from 'node:path';
import { connectMaster } from '#client';
import { loadMasterConfig } from '#config';
import { checkMigration, type DoctorReport, runDoctor } from '#server/ops.ts';
import { freePort } from '../../bench/free-port.ts';
import { until } from '../helpers/deadline.ts';
import { versionOf } from './program-version.ts';
import { masterPrograms, steps } from './programs.ts';
import { RealMaster } from './real-master.ts';

const programs = masterPrograms.length > 0 ? masterPrograms : [''];

for (const [index, program] of programs.entries()) {
  const title = `what salt-master number ${index + 1} made is honoured and healthy`;
  steps('SALT_MASTER')(title, async (t) => {
    t.log(`salt-master ${await versionOf(program)}`);
    const [requestPort, publishPort] = [await freePort(), await freePort()];
    const real = new RealMaster(program, { requestPort, publishPort });
    t.teardown(() => real.dispose());
    real.start();
    const sockets = path.join(real.directory, 's');
    await until('the master to be up', () => existsSync(`${sockets}/workers.ipc`), 120_000);
    const running = await codes(real);
    t.true(running.includes('port-in-use'), running.join());
    await real.stop();

    const { findings, counts } = await checkMigration(real.configDirectory);
    t.is(counts.refused, 0, JSON.stringify(findings));
    const pair = findings.find(({ name }) => name === 'master.pem');
    t.is(pair?.meaning, 'The master uses this key, so minions continue to trust it.');
    const stopped = await codes(real);
    t.deepEqual(
      stopped.filter((code) => code !== 'config-warning'),
      [],
    );
  });
}

async function codes({ configDirectory }: RealMaster): Promise<string[]> {
  const { config } = await loadMasterConfig(configDirectory);
  const openApi = async () => connectMaster({ socketPath: config.socket });
  const report: DoctorReport = await runDoctor({ directory: configDirectory, openApi });
  return report.findings.map(({ code }) => code);
}
