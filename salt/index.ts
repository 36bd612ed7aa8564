/** Salt's services as extensions of a master. The code of a service is loaded when it is opened. */

import type { ExtPillar, MasterExtension, PillarProvider, TopsProvider } from '#master';
import type { TemplateCompatibility } from './compatibility.ts';
import type { FileServerOptions } from './file-trees/open-file-roots.ts';

export type { FileServerOptions } from './file-trees/open-file-roots.ts';
export { runnerProblem } from './not-served.ts';
export { extPillarFiles, extPillarHttp, openFileRoots } from './program-sources.ts';
export type { Chunk } from './reactor/reactor-chunks.ts';
export { rendererProblem } from './render/render-pipe.ts';

/** Names of Salt's services. */
export const saltServiceNames = [
  'files',
  'pillar',
  'mine',
  'runners',
  'wheel',
  'orchestration',
  'schedule',
  'reactor',
  'peers',
  'tops',
] as const;

export type SaltServiceName = (typeof saltServiceNames)[number];

/** Parts of Salt's services that the embedding program can replace or leave out. */
export interface SaltServiceOptions {
  /** Services to leave out. Default: none. */
  readonly without?: readonly SaltServiceName[] | undefined;
  /** Sources of files. Default: `file_roots`. */
  readonly fileserver?: FileServerOptions | undefined;
  /** Pillar of each minion. Default: the pillar of the files below `pillar_roots`. */
  readonly pillar?: PillarProvider | undefined;
  /** Additional pillar sources, merged over `pillar` in this order. Default: none. */
  readonly extPillar?: readonly ExtPillar[] | undefined;
  /** Additional states of each minion's highstate, beside those of the top file. Default: none. */
  readonly tops?: TopsProvider | undefined;
}

/** Returns Salt's services for the `extensions` of a master. */
export function saltServices(options: SaltServiceOptions = {}): MasterExtension[] {
  const { without = [], fileserver, pillar, extPillar, tops } = options;
  const services: Record<SaltServiceName, Omit<MasterExtension, 'name'>> = {
    files: {
      open: async (host) => (await import('./files/extension.ts')).openFiles(host, fileserver),
    },
    pillar: {
      after: ['files'],
      open: async (host) => {
        const { openPillarExtension } = await import('./pillar/extension.ts');
        return openPillarExtension(host, { pillar, extPillar });
      },
    },
    mine: {
      open: async (host) => (await import('./mine/extension.ts')).openMineExtension(host),
    },
    runners: {
      after: ['files', 'mine', 'pillar'],
      open: async (host) => (await import('./runners/extension.ts')).openRunners(host),
    },
    wheel: {
      open: async (host) => (await import('./wheel/extension.ts')).openWheel(host),
    },
    orchestration: {
      after: ['files', 'pillar'],
      open: async (host) => (await import('./orchestrate/extension.ts')).openOrchestration(host),
    },
    schedule: {
      open: async (host) => (await import('./schedule/extension.ts')).openSchedule(host),
    },
    reactor: {
      after: ['files'],
      open: async (host) => (await import('./reactor/extension.ts')).openReactor(host),
    },
    peers: {
      open: async (host) => (await import('./peers/extension.ts')).openPeers(host),
    },
    tops: {
      open: async (host) => (await import('./tops/extension.ts')).openTops(host, tops),
    },
  };
  return saltServiceNames
    .filter((name) => !without.includes(name))
    .map((name) => ({ name, ...services[name] }));
}

/** Loads the code of all services before a master starts. */
export async function preloadSaltServices(): Promise<void> {
  await Promise.all([
    import('./files/extension.ts'),
    import('./pillar/extension.ts'),
    import('./mine/extension.ts'),
    import('./runners/extension.ts'),
    import('./wheel/extension.ts'),
    import('./orchestrate/extension.ts'),
    import('./schedule/extension.ts'),
    import('./reactor/extension.ts'),
    import('./peers/extension.ts'),
    import('./tops/extension.ts'),
  ]);
}

/** Returns the functions and filters that templates of pillar and orchestrations may use. */
export async function loadTemplateCompatibility(): Promise<TemplateCompatibility> {
  const { templateCompatibility } = await import('./compatibility.ts');
  return templateCompatibility();
}

/** Loads the module with which the configuration check parses reactor files. */
export function loadReactorReader(): Promise<typeof import('./reactor/reactor-reader.ts')> {
  return import('./reactor/reactor-reader.ts');
}
