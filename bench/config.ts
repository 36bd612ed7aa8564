import { type MasterConfig, type MasterOptions, resolveMasterConfig } from '#config';

/** A master of its own below `rootDir`, on free loopback ports. */
export function benchConfig(rootDir: string, more: Partial<MasterOptions>): MasterConfig {
  return resolveMasterConfig({
    rootDir,
    interface: '127.0.0.1',
    retPort: 0,
    publishPort: 0,
    pkiDir: '/pki',
    cachedir: '/cache',
    sockDir: '/run',
    stateDir: '/state',
    ...more,
  });
}
