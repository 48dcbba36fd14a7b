/* PD control of every joint to a pose, with gravity compensation, over shared memory.
 *
 *     gcc -O2 -o pd examples/external/pd.c
 *     condyle serve ur3 --signal gravity --seconds 5 -o run.cdl &
 *     ./pd robot 0 -1.2 1.2 -1.57 0 0
 */
#include "condyle_link.h"

int main(int count, char **words)
{
    struct condyle_link link;
    if (condyle_connect(&link, count > 1 ? words[1] : "robot", 10.0)) {
        fprintf(stderr, "%s\n", link.message);
        return 1;
    }
    const double *q = condyle_signal(&link, "q"), *v = condyle_signal(&link, "v"), *gravity = condyle_signal(&link, "gravity");
    const struct condyle_row *row = condyle_find(&link, "effort", 1);
    if (!gravity || !row) {
        fprintf(stderr, "the simulation must send the signal gravity and take the command effort\n");
        condyle_close(&link, "it needs the signal gravity and the command effort");
        return 1;
    }
    double *u = link.command + row->first;
    int over;
    while ((over = condyle_receive(&link)) > 0) {
        for (uint32_t i = 0; i < row->count; i++) {
            const double target = (int)i + 2 < count ? atof(words[i + 2]) : 0.0;
            u[i] = gravity[i] + 20.0 * (target - q[i]) - 2.0 * v[i];
        }
        condyle_send(&link);
    }
    printf("%s\n", link.message);
    condyle_close(&link, "");
    return over ? 1 : 0;
}
