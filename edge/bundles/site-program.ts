/** Functions through which a site changes the configuration of its master. */

import type { ReloadReport } from '#master';

/** Functions that check and change the configuration of the running master. */
export interface SiteProgram {
  /**
   * Checks the configuration of this site together with a bundle.
   * @param bundle - directory of the bundle
   * @returns problems that would prevent a start of the master
   */
  check(bundle: string): Promise<readonly string[]>;
  /**
   * Reads the configuration again, with the bundle in use, and applies the reloadable options.
   * @throws ConfigError if the configuration is invalid. The master then keeps its present
   * configuration
   */
  reload(): Promise<ReloadReport>;
  /**
   * Closes the master and starts it again with the configuration of the bundle in use. If it does
   * not start, the program uses the former bundle and starts again.
   */
  restart(): Promise<void>;
}
