/** A program that runs a master with options as JSON and writes its log to standard output. */

import { type MasterOptions, resolveMasterConfig } from '#config';
import { createLogger } from '#master';
import { createMaster } from '#server';

const options: Partial<MasterOptions> = JSON.parse(process.argv[2] ?? '{}');
const logger = createLogger('debug');
const master = createMaster({ config: resolveMasterConfig(options), logger });
process.once('SIGTERM', () => {
  master.close().catch((error: unknown) => {
    logger.error({ err: error }, 'close failed');
    process.exitCode = 1;
  });
});
await master.start();
