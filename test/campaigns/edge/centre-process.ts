/** Process with the centre of the campaign, or with a master without sites. It listens on loopback. */

import { createMasterServer } from '#server';
import { HostProbe } from '../../edge/host-probe.ts';
import { sitesSection } from '../../edge/sections.ts';
import { layMasterKey } from '../../helpers/rsa-keys.ts';
import { serveParent } from './child.ts';
import { compilePillars, grainsOf, layNodeKeys, nodesOf } from './nodes.ts';
import {
  countPartRequests,
  countTraffic,
  type PartRequests,
  type ProcessFigures,
  processFigures,
  residentMemory,
  takePartRequests,
} from './process-figures.ts';

/** Settings of the process. */
export interface CentreSettings {
  readonly directory: string;
  /** Port of the HTTP API, or 0. */
  readonly port: number;
  /** Directory of the source of releases. `undefined`: a master without sites. */
  readonly source?: string;
  readonly pillarRoot?: string;
  /** Address of the HTTP API. Default: 127.0.0.1. */
  readonly host?: string;
  /** Files of a certificate. Default: the HTTP API does not use TLS. */
  readonly tls?: { readonly certificate: string; readonly key: string };
  /** Number of nodes of the centre itself. */
  readonly nodes: number;
}

countTraffic();
countPartRequests();
let server: Awaited<ReturnType<typeof createMasterServer>> | undefined;

const functions = {
  start: async ({
    directory,
    port,
    source,
    pillarRoot,
    nodes,
    host = '127.0.0.1',
    tls,
  }: CentreSettings) => {
    const stateDir = `${directory}/state`;
    const pkiDir = `${directory}/pki`;
    layMasterKey(pkiDir);
    layNodeKeys(pkiDir, nodesOf('centre', nodes));
    const probe = new HostProbe();
    server = await createMasterServer({
      extensions: [probe.extension],
      rootDir: directory,
      stateDir,
      pkiDir,
      interface: '127.0.0.1',
      publishPort: 0,
      requestPort: 0,
      logLevel: 'error',
      api: {
        host,
        port,
        ...(tls === undefined
          ? { disableSsl: true }
          : { sslCrt: tls.certificate, sslKey: tls.key }),
      },
      ...(source === undefined ? {} : { sites: sitesSection({ source }) }),
      ...(pillarRoot === undefined ? {} : { pillarRoots: { base: [pillarRoot] } }),
    });
    await server.start();
    await probe.keepGrains(grainsOf(nodesOf('centre', nodes)));
    return { port: server.httpAddress?.port ?? 0, socket: server.master.config.socket };
  },
  figures: async (): Promise<ProcessFigures> => processFigures(),
  memory: () => residentMemory(),
  /** Requests for parts of packs since the last call. */
  parts: async (): Promise<PartRequests> => takePartRequests(),
  pillars: async ({ nodes }: { readonly nodes: number }) => {
    if (server === undefined) throw new Error('the centre has not started');
    return compilePillars(server, nodesOf('centre', nodes));
  },
  close: async () => {
    await server?.close();
    server = undefined;
  },
};

export type CentreFunctions = typeof functions;

serveParent(functions);
