import { errorMessage } from '#runtime';
/** Checks a bundle after the switch to it, by compiling the pillars of some minions. */

import { type ExtensionHost, masterServices } from '#master';

/** Number of minions whose pillars are compiled to check a new bundle. */
const sampleSize = 5;

/**
 * Returns some accepted minions whose pillar has no errors. Minions without known grains are
 * omitted, because templates may need grains.
 */
export async function healthySample(host: ExtensionHost): Promise<readonly string[]> {
  const { facts } = host.use(masterServices.jobs);
  const accepted = host.use(masterServices.auth).keys.acceptedIds();
  const ids = accepted.filter((id) => facts.of(id).grains !== undefined);
  const step = Math.max(1, Math.floor(ids.length / sampleSize));
  const sample = ids.filter((_, index) => index % step === 0).slice(0, sampleSize);
  const healthy: string[] = [];
  for (const id of sample) if ((await pillarProblem(host, id)) === undefined) healthy.push(id);
  return healthy;
}

/**
 * Compiles the pillar of each minion, and returns the first problem. Returns `undefined` if there
 * is none.
 */
export async function findPillarProblem(
  host: ExtensionHost,
  minions: readonly string[],
): Promise<string | undefined> {
  for (const id of minions) {
    const problem = await pillarProblem(host, id);
    if (problem !== undefined) return `pillar of ${id}: ${problem}`;
  }
  return undefined;
}

async function pillarProblem(host: ExtensionHost, minion: string): Promise<string | undefined> {
  const provider = host.find(masterServices.pillar);
  if (provider === undefined) return undefined;
  try {
    const pillar = await provider.show({ minion });
    const errors = pillar instanceof Map ? pillar.get('_errors') : pillar._errors;
    if (errors === undefined || errors === null) return undefined;
    return Array.isArray(errors) ? errors.map(String).join('; ') : String(errors);
  } catch (error) {
    return errorMessage(error);
  }
}
