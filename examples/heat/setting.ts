/** Common parts of the examples with Heat: a cloud, a master, two minions and templates. */
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { type Need, variable } from '../example.ts';
import { type CloudDescription, HeatClient, readCloud } from './cloud.ts';
import { installPlugin } from './plugin.ts';
import { Stage } from './stage.ts';

/** Returns the text of a template in `examples/heat/templates`. */
export function template(name: string): string {
  const url = new URL(`../../examples/heat/templates/${name}.yaml`, import.meta.url);
  return readFileSync(fileURLToPath(url), 'utf8');
}

export const cloudNeed = (): Need =>
  variable(
    'HEAT_ENV',
    'path of a JSON file that describes the local Heat; see examples/heat/README.md',
  );

export const pluginNeeds = (): readonly Need[] => [
  cloudNeed(),
  variable(
    'HEAT_START',
    'path of a program that restarts heat-engine; see examples/heat/README.md',
  ),
];

/** Installs the plug-in for the Heat that the variables in {@link pluginNeeds} describe. */
export function installForExample({ url }: Stage): Promise<void> {
  const { HEAT_ENV: file = '', HEAT_START: start = '' } = process.env;
  return installPlugin(path.dirname(file), start, url);
}

/** Returns the cloud that `HEAT_ENV` describes. */
export function readCloudOfExample(): CloudDescription {
  return readCloud(process.env.HEAT_ENV ?? '');
}

/** Runs `work` with a cloud, and with a running master that has the minions web-1 and web-2. */
export async function withCloud(
  work: (heat: HeatClient, stage: Stage) => Promise<void>,
  prepare: (stage: Stage) => Promise<void> = async () => {},
): Promise<void> {
  const cloud = readCloudOfExample();
  const stage = new Stage(cloud);
  try {
    await prepare(stage);
    await stage.start();
    for (const id of ['web-1', 'web-2']) await stage.startMinion(id);
    await work(new HeatClient(cloud, cloud.users.demo), stage);
  } finally {
    await stage.close();
  }
}
