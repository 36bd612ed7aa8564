/** What Salt tells a template about its own place [salt/utils/templates.py generate_sls_context]. */

/** @param file below its root: `web/init.sls` */
export function slsNames(file: string): Readonly<Record<string, string>> {
  const directory = file.includes('/') ? file.slice(0, file.lastIndexOf('/')) : '';
  return {
    slspath: directory,
    slsdotpath: directory.replaceAll('/', '.'),
    slscolonpath: directory.replaceAll('/', ':'),
    sls_path: directory.replaceAll('/', '_'),
  };
}
