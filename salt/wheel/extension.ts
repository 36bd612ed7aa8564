/** The extension that provides Salt's wheel functions. */

import { type ExtensionHost, masterServices, type OpenExtension } from '#master';
import { insteadOfWheel } from '../not-served.ts';
import { wheelTable } from './wheel.ts';

export async function openWheel(host: ExtensionHost): Promise<OpenExtension> {
  return {
    insteadOf: (kind, fun) => (kind === 'wheel' ? insteadOfWheel(fun) : undefined),
    wheel: wheelTable({
      config: host.use(masterServices.config),
      auth: host.use(masterServices.auth),
      jobs: host.use(masterServices.jobs),
      keys: host.use(masterServices.keys),
    }),
  };
}
