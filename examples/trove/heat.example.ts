import { readFileSync } from 'node:fs';
import path from 'node:path';
import { type ControlPlane, newPassword } from '../control-plane.ts';
import type { Example, Step } from '../example.ts';
import { HeatClient, readCloud, type StackState } from '../heat/cloud.ts';
import { installPlugin } from '../heat/plugin.ts';
import { pluginNeeds } from '../heat/setting.ts';
import { query, sources, startTrovePlane } from './callers.ts';
import { Instance, troveUserData } from './instance.ts';
import { EventTexts, isNowhere, searchFor } from './password-search.ts';
import { troveNeeds } from './trove.example.ts';

/** A stack that creates a running database, with Heat's plug-in. */
export const troveHeat: Example = {
  description: 'a stack of Heat that ends in a running MariaDB server with a user',
  needs: () => [...troveNeeds(), ...pluginNeeds()],
  run: async (step) => {
    const { HEAT_ENV: file = '', HEAT_START: start = '' } = process.env;
    const cloud = readCloud(file);
    const plane = await startTrovePlane(cloud);
    const instance = await Instance.create(path.join(plane.directory, 'backups'));
    try {
      await step('install the plug-in in heat-engine', () =>
        installPlugin(path.dirname(file), start, plane.url, plane.certificate),
      );
      await runStack(step, new HeatClient(cloud, cloud.users.demo), plane, instance);
    } finally {
      await instance.close();
      await plane.close();
    }
  },
};

async function runStack(
  step: Step,
  heat: HeatClient,
  plane: ControlPlane,
  instance: Instance,
): Promise<void> {
  const events = new EventTexts(plane.server.master);
  const password = newPassword();
  const stack = await step('create the stack of templates/database.yaml', async () => {
    const text = readFileSync(path.join(sources, 'templates/database.yaml'), 'utf8');
    const made = await heat.create(text, {
      trove_user_data: troveUserData('heat-1', 'demo'),
      minion_config: instance.config,
      config_dir: instance.configDir,
      memory_mb: 64,
      password,
    });
    process.stdout.write(`  openstack stack show ${made.name} -c stack_status -c outputs\n`);
    return made;
  });
  await step('boot the instance with the user-data of the stack', async () => {
    const isMade = (it: StackState): boolean => String(it.outputs.user_data).length > 1000;
    const { outputs } = await stack.until('the user-data', isMade);
    await instance.boot(String(outputs.user_data));
    return outputs.minion_id;
  });
  await step(
    'the stack is complete, and the user from its template can log in',
    async () => {
      const { status, reason } = await stack.end();
      const answer = await query(instance.port, 'anna', password, 'SHOW DATABASES LIKE "shop"');
      return { status, reason, answer };
    },
    ({ status, answer }) => status === 'CREATE_COMPLETE' && answer.text === 'shop',
  );
  await step(
    'no event, job, log or file of the master or the instance contains the password',
    () => searchFor([password], plane, events.texts, [instance.folder]),
    isNowhere,
  );
  events.close();
  await step(
    'delete the stack: the server is stopped, and the key of its minion is deleted',
    async () => {
      await stack.delete();
      const { status } = await stack.end();
      const { ok } = await query(instance.port, 'anna', password, 'SELECT 1');
      const keys = await plane.server.master.keys.list();
      return { status, runs: ok, keys: keys.map(({ id }) => id) };
    },
    ({ status, runs, keys }) => status === 'DELETE_COMPLETE' && !runs && keys.length === 0,
  );
}
