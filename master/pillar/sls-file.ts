import type { Reads } from './reads.ts';
import type { SourceFile } from './source-file.ts';

/** The file of an SLS: `web.common` is `web/common.sls` or `web/common/init.sls`. */
export async function findSls(
  reads: Reads,
  sls: string,
  saltenv: string,
): Promise<SourceFile | undefined> {
  const place = sls.replaceAll('.', '/');
  return (
    (await reads.read(`${place}.sls`, saltenv)) ?? (await reads.read(`${place}/init.sls`, saltenv))
  );
}
